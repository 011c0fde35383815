"""Commands of `trl-grpo-ext`, each in a file."""
