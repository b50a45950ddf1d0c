"""Regular clocks: steps, the place of each row, missing and repeated times."""
