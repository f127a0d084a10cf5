"""Recipients, their addresses and opt-outs, the suppression list, and what tenants decide about telling them."""
