"""The training loop, its devices, gradients, and where a training stands."""
