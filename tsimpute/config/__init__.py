"""Settings as frozen dataclasses, their YAML files, and plug-ins by name."""
