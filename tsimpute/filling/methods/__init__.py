"""Methods beside the Gaussian process that say one value for each missing cell."""
