"""What the verifiers share that compare answers: one finder, and one reader each of answers and of choices."""
