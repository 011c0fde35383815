"""Verifiers of answer formats: boxes, fenced code, JSON, XML, tags, regular expressions."""
