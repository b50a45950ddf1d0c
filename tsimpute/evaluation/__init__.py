"""Scores of an imputer on held-out cells, and the rows of numbers that come of it."""
