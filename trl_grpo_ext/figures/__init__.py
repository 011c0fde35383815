"""A scorecard in numbers: the one reduction that logs, checks, evaluations and reports read."""
