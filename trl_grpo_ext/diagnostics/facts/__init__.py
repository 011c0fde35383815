"""What is kept of the batches of a run: counts and means, no text, so that checks are cheap and memory is bounded."""
