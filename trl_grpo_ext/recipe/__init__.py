"""Train by a recipe: YAML file, data, model, training, summary."""
