"""Rules for alerts about telling people, and the telling of operators."""
