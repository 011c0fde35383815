"""Checks of a run, their findings, and the answer to what holds the reward back."""
