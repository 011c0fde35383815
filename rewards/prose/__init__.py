"""Prose and its languages: what of a completion is prose, in which scripts, in which languages."""
