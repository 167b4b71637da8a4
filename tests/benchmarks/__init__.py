"""Benchmarks that compare alternatives within one run: `make bench`."""
