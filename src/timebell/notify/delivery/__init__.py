"""Delivery: the job that renders a notification, calls a provider and keeps its answer; digests and turns."""
