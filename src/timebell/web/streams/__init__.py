"""Server-Sent Events and feeds that programs subscribe to."""
