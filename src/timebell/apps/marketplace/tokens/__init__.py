"""Magic links: issued for a person, redeemed once, and cleaned every night."""
