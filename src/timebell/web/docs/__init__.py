"""The OpenAPI document and the pages for people."""
