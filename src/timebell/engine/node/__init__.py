"""A node: its lease and slots, the database's time, and what it says of itself."""
