"""Runs from a configuration, sweeps over solvers, and the leakage test."""
