"""
The record of every effect on the API: what was intended, what came of it, what the service said.

The API has no list, no update, no delete and no idempotency key, so the client remembers: an intent is
committed before its request, the outcome after. Whoever finds an intent without an outcome knows that the
request may have happened. Feedback, which the API can write and not read, is read back from here.
"""

from airflow_provider_assistant.ledger.batches import RENEWAL, BatchLedger, Claim, End, Known, Settlement, Standing
from airflow_provider_assistant.ledger.history import feedback_between, loads_between, questions_scope, requests_between
from airflow_provider_assistant.ledger.latest import is_superseded
from airflow_provider_assistant.ledger.loads import LoadRecord
from airflow_provider_assistant.ledger.schema import SCHEMA_VERSION, RunRef, ratings, submissions
from airflow_provider_assistant.ledger.store import Ledger, document_scope, key_of, outcome_of, sqlite_engine

__all__ = [
    "RENEWAL",
    "SCHEMA_VERSION",
    "BatchLedger",
    "Claim",
    "End",
    "Known",
    "Ledger",
    "LoadRecord",
    "RunRef",
    "Settlement",
    "Standing",
    "document_scope",
    "feedback_between",
    "is_superseded",
    "key_of",
    "loads_between",
    "outcome_of",
    "questions_scope",
    "ratings",
    "requests_between",
    "sqlite_engine",
    "submissions",
]
