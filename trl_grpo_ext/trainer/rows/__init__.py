"""Rows that teach: the choice of the rows of a training batch by what is known of their success rates."""
