"""How a dataset row becomes a suite of tests, and a completion a program; used by `UnitTestVerifier`."""
