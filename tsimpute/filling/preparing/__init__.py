"""A table made ready for a model, and which of its cells are filled."""
