"""Tables larger than memory, filled block by block."""
