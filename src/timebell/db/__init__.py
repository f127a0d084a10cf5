"""PostgreSQL without a domain word: the embedded server, the pool, the queries, the migrations, the wake-ups."""
