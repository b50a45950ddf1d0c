"""Pages of HTML to file."""
