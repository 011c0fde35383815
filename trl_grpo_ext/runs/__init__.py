"""Write, read and thin out a run's files on disk."""
