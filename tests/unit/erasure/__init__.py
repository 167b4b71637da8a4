"""Erasing persons, and deleting by age."""
