"""What one scorecard comes to in numbers, one kind a file: pure functions of a `Batch`, and of nothing that is live.

What is not known is NaN, never 0. `diagnostics/batch_statistics.py` puts them together under the names in
`docs/metrics.md`.
"""
