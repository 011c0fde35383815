"""Encode values and objects as messages between judge and program, by rules that both ends share."""
