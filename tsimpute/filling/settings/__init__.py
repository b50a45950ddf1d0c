"""Settings of a table imputer in one form each."""
