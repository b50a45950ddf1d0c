"""From a person's file to the same file filled."""
