"""Telling: a notification is written down with the job that delivers it, in the caller's transaction."""
