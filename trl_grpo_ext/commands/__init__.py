"""The commands that judge: score, eval, probe, audit, check-data and replay, each with its arguments."""
