"""Metrics, traces and lineage."""
