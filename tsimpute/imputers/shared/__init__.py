"""What several imputers share."""
