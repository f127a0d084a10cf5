"""The numbered migrations of the meetings app."""
