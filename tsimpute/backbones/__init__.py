"""Networks, one file each: what a state, a process time and a condition are mapped to."""
