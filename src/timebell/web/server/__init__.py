"""The ASGI application and the port before it: middleware, router, metrics and health."""
