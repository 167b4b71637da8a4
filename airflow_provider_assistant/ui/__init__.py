"""Extensions of Airflow's UI."""
