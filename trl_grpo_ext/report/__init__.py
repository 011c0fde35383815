"""The report: a run as one page that opens offline. It reads scorecards, logs and findings, and changes nothing."""
