"""Checks of what completions look like: cut, unreadable, long, repeated, in another script."""
