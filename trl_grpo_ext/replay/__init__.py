"""Replay: the recorded completions of a run under other rewards. Nothing is generated, and nothing is trained."""
