"""Shifts from their planning to their approval, and how bookings end."""
