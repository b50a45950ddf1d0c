"""Files of what was learnt, and the trained models that come with the package."""
