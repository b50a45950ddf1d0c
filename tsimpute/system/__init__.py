"""What the machine gives: files written whole, folders, threads, compiled C, the terminal."""
