"""Decisions about telling people: whether, when, on which channel, in which words. Values in, values out."""
