"""Weekly payments: what is charged for a week, and the ledger in which every cent is somewhere."""
