"""How verifiers read completions: the final answer, what comes after the thinking, tags, JSON, linear patterns."""
