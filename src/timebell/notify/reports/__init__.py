"""Reports: what providers tell after they have taken a delivery, kept once and applied in any order."""
