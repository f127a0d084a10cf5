"""Measures Timebell against the raw loop: the same SQL on the same server in the same run, with no engine around it."""
