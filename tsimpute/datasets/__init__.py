"""Data sets, found by name; see ``tsimpute.config.registry``."""
