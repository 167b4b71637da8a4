"""Metrics and lineage."""
