"""
The ledger: a SQL record of every attempt to create something at the service, and of the tries of tasks.

The specified API has no list, update or delete and no idempotency key, so the client keeps the record itself. It
commits a claim before each request and the outcome after it. A claim without an outcome means that the request may have
happened. The API cannot return ratings either; exports read them from the ledger.
"""

from airflow_provider_assistant.keys import hash_of
from airflow_provider_assistant.ledger.attempts import Claim, Known, Outcome, ScopeLedger
from airflow_provider_assistant.ledger.filters import Filter, Which
from airflow_provider_assistant.ledger.location import ledger_conn_id
from airflow_provider_assistant.ledger.schema import Kind, RunRef, State
from airflow_provider_assistant.ledger.scopes import Scope, Site, key_of, service_of
from airflow_provider_assistant.ledger.sqlite_file import sqlite_engine
from airflow_provider_assistant.ledger.store import Ledger
from airflow_provider_assistant.ledger.tries import Try

__all__ = [
    "Claim",
    "Filter",
    "Kind",
    "Known",
    "Ledger",
    "Outcome",
    "RunRef",
    "Scope",
    "ScopeLedger",
    "Site",
    "State",
    "Try",
    "Which",
    "hash_of",
    "key_of",
    "ledger_conn_id",
    "service_of",
    "sqlite_engine",
]
