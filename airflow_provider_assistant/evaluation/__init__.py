"""Evaluation: cases, a matrix of scores, named figures, rules of a gate, and the comparison with earlier runs."""
