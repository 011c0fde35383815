"""Find a completion's final answer by marks, phrases and the last sentence."""
