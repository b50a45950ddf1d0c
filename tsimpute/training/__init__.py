"""The training loop, its devices and gradients, and its progress."""
