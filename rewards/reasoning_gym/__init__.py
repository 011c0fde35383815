"""Verify answers to reasoning-gym problems with the scorer of their task."""
