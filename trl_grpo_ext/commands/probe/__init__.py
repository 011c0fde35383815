"""What a recipe's data would teach its model, asked before a run."""
