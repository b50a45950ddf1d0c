"""Draws of a Gaussian process moved towards other methods, as far as hidden cells say."""
