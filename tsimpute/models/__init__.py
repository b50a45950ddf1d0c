"""Model files, and the trained models that are bundled with the package."""
