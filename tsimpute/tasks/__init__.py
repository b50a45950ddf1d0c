"""What a run trains on and scores: splits, missingness mechanisms, protocols."""
