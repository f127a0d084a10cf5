"""The numbered migrations of the sequences app."""
