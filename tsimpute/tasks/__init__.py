"""Tasks: splits, missingness mechanisms, protocols."""
