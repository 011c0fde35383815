"""Find the rows of a recipe's data that its verifiers cannot judge."""
