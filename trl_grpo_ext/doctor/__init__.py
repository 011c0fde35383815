"""What `trl-grpo-ext doctor` runs: attacks on the sandbox of this machine."""
