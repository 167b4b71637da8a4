"""
Asking by the thousand: questions are submitted like rows of a load, and waited for together.

Submitting is :mod:`~airflow_provider_assistant.loading`'s engine, with another call. What is here is the rest:
one poller for all requests that are still open, the journal of answers that came so far, and the table that
has a row for every question.
"""
