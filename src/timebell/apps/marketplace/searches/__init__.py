"""Saved searches: who is told at once when somebody is listed, and what is told every morning at five."""
