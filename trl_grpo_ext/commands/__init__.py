"""The commands that have no folder of their own, one a file: what each takes, and what it does."""
