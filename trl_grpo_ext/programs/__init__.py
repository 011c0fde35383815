"""Run programs that nobody trusts: walls, processes, a judge for tests, and suites of tests."""
