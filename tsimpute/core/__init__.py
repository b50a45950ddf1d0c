"""Shared types: records, batches, panels, limits, quantiles, seeds."""
