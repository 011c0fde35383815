"""Helpers for all other folders: texts, files, numbers, threads. They know nothing of rewards."""
