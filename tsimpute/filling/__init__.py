"""A person's table filled: prepared, learnt from, measured, delivered."""
