"""What the generative imputer is made of."""
