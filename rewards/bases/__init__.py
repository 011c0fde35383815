"""Base classes and helpers shared by several verifiers."""
