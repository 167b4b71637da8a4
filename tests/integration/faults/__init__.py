"""Loads that something happens to, counted at the service."""
