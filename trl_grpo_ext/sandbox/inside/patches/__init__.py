"""What the tests change in Python itself, for a while, happens in the program too."""
