"""Apache Airflow provider for the Assistant M2M API."""

__version__ = "0.1.0"
