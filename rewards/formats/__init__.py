"""Readers of the forms that verifiers of formats ask for: JSON, JSON Schema, tags, fences, regular expressions."""
