"""A panel in windows: what a model learns from and is measured on."""
