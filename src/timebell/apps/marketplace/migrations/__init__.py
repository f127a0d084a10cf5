"""The tables of the marketplace."""
