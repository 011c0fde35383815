"""An answer as a typed value: one grammar of numbers, units, times, dates, choices, LaTeX."""
