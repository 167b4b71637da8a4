"""Every operator, sensor and decorator in every mode of Airflow: table.py has one line for each."""
