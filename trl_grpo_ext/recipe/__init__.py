"""A run from a file: the recipe, its data, the training, the summary."""
