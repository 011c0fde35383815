"""Running verifiers where they can be stopped: worker processes with a deadline for each call."""
