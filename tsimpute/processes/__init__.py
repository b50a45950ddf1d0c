"""Processes between noise and data, one file each."""
