"""Replay: score a run's recorded completions by other rewards, without generation or training."""
