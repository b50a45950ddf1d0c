"""NumPy arrays and xarray objects as panels, and back with their gaps filled."""
