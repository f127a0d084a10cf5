"""The numbered migrations of the reminders app."""
