"""Values on the scale that models see, and back, within the limits of each feature."""
