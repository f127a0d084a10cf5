"""The statements of this room: one file each, named after what it does."""
