"""One request through a route: bodies and fields, the effect in one transaction, the reply, refusals as problems."""
