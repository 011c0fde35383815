"""The report: a run as an HTML page that opens offline, made from scorecards, logs and findings.

Making a report reads the run folder, and changes no record.
"""
