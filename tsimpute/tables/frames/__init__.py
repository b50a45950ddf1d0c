"""Data frames as panels, and back with their gaps filled."""
