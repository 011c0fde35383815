"""Walls around a program under test: readable files, writable files, allowed system calls."""
