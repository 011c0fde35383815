"""What checks go by: a window of a run, how high its scores are, whether they rise, who judges the same thing."""
