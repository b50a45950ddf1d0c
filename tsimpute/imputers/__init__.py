"""Imputers, found by name; see ``tsimpute.config.registry``."""
