"""Draws at hidden cells of the user's own table: accuracy, and calibrated intervals."""
