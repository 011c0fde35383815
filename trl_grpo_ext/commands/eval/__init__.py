"""Evaluate models: record a run without training, compute its figures, and compare two evaluations."""
