"""From records to training batches: masks, baselines, loading."""
