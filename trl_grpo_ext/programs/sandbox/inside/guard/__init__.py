"""Guard the judge: no code of a program runs in it, whoever asks, and no object of a program answers a test by itself."""
