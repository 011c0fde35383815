"""Sources sent to the judge as text and executed there: stand-ins for pytest, and function calls."""
