"""A Celery cluster: its system tests, and the demo."""
