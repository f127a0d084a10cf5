"""Limits on the jobs that may begin: rates, permits, circuit breakers, pauses, and room for careful starts."""
