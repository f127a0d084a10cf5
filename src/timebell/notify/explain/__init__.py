"""The delivery log: what was told, and why something was told or was not."""
