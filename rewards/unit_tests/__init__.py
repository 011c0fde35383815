"""Parts of `UnitTestVerifier`: read test suites from rows, extract programs from completions, score runs."""
