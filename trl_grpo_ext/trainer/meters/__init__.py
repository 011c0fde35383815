"""Meters: what they measure during training goes to the logs, and changes nothing."""
