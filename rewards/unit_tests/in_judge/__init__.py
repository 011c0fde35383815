"""Sources that are sent to the judge as text, and run there: stand-ins for pytest, and calls of one function."""
