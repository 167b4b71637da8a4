"""
The command line: ``airflow assistant …``, and the same behind ``python -m airflow_provider_assistant``.

Airflow reads :mod:`~airflow_provider_assistant.cli.definition` whenever somebody types ``airflow``, so that imports
nothing; the commands are imported when they are run.
"""
