"""Settings of a table imputer, normalised."""
