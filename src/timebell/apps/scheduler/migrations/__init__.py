"""The numbered migrations of the scheduler app."""
