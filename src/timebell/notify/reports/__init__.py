"""What providers report after they have taken a message: kept once, applied in any order."""
