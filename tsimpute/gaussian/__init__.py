"""A stationary Gaussian process over features and lags, fitted to incomplete records and conditioned exactly."""
