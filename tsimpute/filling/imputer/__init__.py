"""The table imputer: fit, fill, keep."""
