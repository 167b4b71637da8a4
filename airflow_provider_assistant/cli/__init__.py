"""
The command line: ``airflow assistant …`` and ``python -m airflow_provider_assistant …``.

Every ``airflow`` command imports :mod:`~airflow_provider_assistant.cli.definition`, so that module imports as little as
possible. The functions of the commands are imported when they run.
"""
