"""Tables: what people have, read and given back filled, and completed records as tables to file."""
