"""Delimited text files: characters, lines, fields and numbers, written back byte for byte."""
