"""Worker processes for verifiers that may hang."""
