"""Kinds of columns and suspicious values of a table, before a model sees it."""
