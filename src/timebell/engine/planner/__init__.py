"""The planner: schedules that are due for a look, and newer timezone data."""
