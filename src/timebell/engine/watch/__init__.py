"""The watch over the rules for alerts, and the engine's own rules."""
