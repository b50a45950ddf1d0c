"""Benchmark suites as data: tasks x methods x folds x seeds, run where not done yet, told in tables and pictures."""
