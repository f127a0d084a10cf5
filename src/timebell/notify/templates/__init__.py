"""Templates: texts in versions, checked when they are saved, and rendered for a reader on a channel."""
