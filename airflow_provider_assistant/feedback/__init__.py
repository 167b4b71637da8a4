"""Ratings of answers: which answers to rate, and sending each rating once."""
