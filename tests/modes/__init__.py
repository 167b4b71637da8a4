"""Every operator and sensor in every mode of Airflow: table.py has one line for each."""
