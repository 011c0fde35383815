"""Read the tests of a dataset's row into a suite that the judge runs."""
