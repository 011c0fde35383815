"""Reduce a scorecard to numbers, once, for logs, checks, evaluations and reports."""
