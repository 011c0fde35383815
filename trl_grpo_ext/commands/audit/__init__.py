"""Audit a reward: score probes with known verdicts, and train a small policy against the reward."""
