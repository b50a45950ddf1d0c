"""What passes between all parts: records, batches, panels, limits, quantiles, seeds."""
