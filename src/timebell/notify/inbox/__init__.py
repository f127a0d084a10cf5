"""The inbox of a recipient, and the outbox of demo mode."""
