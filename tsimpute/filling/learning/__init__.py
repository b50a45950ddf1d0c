"""A model learnt from a table, by the effort."""
