"""Judge a file of completions by a mix, for `trl-grpo-ext score`. Nothing is generated or trained."""
