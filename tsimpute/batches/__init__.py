"""From records to training batches: masks, first guesses, loading."""
