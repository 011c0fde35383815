"""Guard the judge: no code of a program runs in it, and no object of a program answers a test by itself."""
