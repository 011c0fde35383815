"""Compare two values."""
