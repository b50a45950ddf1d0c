"""Whatever a table comes in, objects and files: read, and given back filled in kind."""
