"""The SQL of the meetings app, one query a file."""
