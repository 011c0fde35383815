"""Choose by the question: its asked side, name, letter, form, words or thing."""
