"""Tests that need a real Airflow, a real browser or a built package."""
