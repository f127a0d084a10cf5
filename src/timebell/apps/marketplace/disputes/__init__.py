"""What is disputed about shifts and reported about them, and how that is resolved."""
