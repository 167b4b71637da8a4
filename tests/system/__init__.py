"""What can only be seen on a real Airflow, in a real browser, or from a real package."""
