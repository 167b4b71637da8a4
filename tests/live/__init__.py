"""A real Airflow and the embedded service in processes of their own: system tests, the demo."""
