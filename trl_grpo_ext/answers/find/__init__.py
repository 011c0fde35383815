"""Where a completion gives its answer: marks, phrases, the last sentence, hedges."""
