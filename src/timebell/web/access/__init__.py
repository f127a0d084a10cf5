"""Who calls, what they may do, how often, and for which tenant."""
