"""The worker: reads due jobs, begins them in turn, runs their handlers and settles the outcomes."""
