"""Which column of a table is its time, its groups, its features."""
