"""Shared types: records, batches, panels, limits, quantiles, gaps, seeds."""
