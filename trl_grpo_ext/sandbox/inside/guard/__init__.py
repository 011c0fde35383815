"""The guard of the judge: nothing that came from a program is run in it, whoever asks."""
