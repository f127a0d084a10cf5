"""Shifts from their planning to their approval, and what is disputed about them."""
