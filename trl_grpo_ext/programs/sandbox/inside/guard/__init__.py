"""Guard the judge: code that came from a program never runs in it, whoever asks."""
