"""Run programs that a model wrote against tests that a program can neither read nor forge."""
