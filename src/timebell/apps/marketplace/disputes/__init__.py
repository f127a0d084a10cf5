"""Disputes and incidents: what somebody disputes or reports about a shift, and how that is resolved."""
