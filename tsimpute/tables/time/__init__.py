"""Columns of times: read, and written in the form of the column."""
