"""Repeat in the program the tests' temporary changes to Python itself."""
