"""The demonstration: a table filled in seconds, then both processes trained, on generated data."""
