"""System tests on a Celery cluster."""
