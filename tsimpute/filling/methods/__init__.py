"""Methods other than the Gaussian process: each gives one value for each missing cell."""
