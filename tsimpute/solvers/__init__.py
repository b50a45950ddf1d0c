"""Solvers that go from noise to data, one file each."""
