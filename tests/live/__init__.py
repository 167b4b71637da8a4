"""A real Airflow and the embedded service in separate processes, for system tests and the demo."""
