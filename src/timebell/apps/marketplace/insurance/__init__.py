"""Insurances of companies: the daily look at them, and what is stopped where one is not valid."""
