"""Whether two values are the same."""
