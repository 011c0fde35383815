"""How a math answer is found, read and compared; used by `MathVerifier`."""
