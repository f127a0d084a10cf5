"""What Timebell serves over HTTP."""
