"""Read an answer as a typed value, by a grammar of numbers, units, times, dates, choices and LaTeX."""
