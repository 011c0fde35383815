"""What several verifiers are made of."""
