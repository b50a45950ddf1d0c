"""What names and contents of single columns say."""
