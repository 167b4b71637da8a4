"""Fault tests: loads and chat batches that are interrupted, with counts from the service."""
