"""Verifiable instructions of IFEval: a check per instruction, and the verifier that reads instructions from a row."""
