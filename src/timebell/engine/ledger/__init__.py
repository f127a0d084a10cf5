"""The ledger of the jobs that a node knows of: their stages, whose turn it is, and who waits for an earlier step."""
