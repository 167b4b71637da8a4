"""
The ledger: a SQL record of every effect on the API, with its claim and its outcome.

The API has no list, update or delete and no idempotency key, so the client keeps the record itself. It commits a
claim before each request and the outcome after it. A claim without an outcome means that the request may have
happened. The API cannot return ratings either; exports read them from the ledger.
"""

from airflow_provider_assistant.ledger.claims import BatchLedger, Claim, ClaimOutcome, RequestEnd
from airflow_provider_assistant.ledger.document_groups import DocumentGroup, document_group
from airflow_provider_assistant.ledger.effects import key_of, outcome_of
from airflow_provider_assistant.ledger.entries import (
    CreatedEntry,
    EntryContent,
    LedgerEntry,
    PossibleDuplicate,
    StaleDocument,
)
from airflow_provider_assistant.ledger.history import feedback_between, loads_between, requests_between
from airflow_provider_assistant.ledger.latest import is_superseded
from airflow_provider_assistant.ledger.leases import LeaseSettings
from airflow_provider_assistant.ledger.load_log import LoadRecord
from airflow_provider_assistant.ledger.location import LedgerLocation, check_location, location_of, sqlite_engine
from airflow_provider_assistant.ledger.migrate import SCHEMA_VERSION
from airflow_provider_assistant.ledger.schema import RunRef, ratings, submissions
from airflow_provider_assistant.ledger.scopes import DocumentScope, QuestionScope
from airflow_provider_assistant.ledger.store import Ledger

__all__ = [
    "SCHEMA_VERSION",
    "BatchLedger",
    "Claim",
    "ClaimOutcome",
    "CreatedEntry",
    "DocumentGroup",
    "DocumentScope",
    "EntryContent",
    "LeaseSettings",
    "Ledger",
    "LedgerEntry",
    "LedgerLocation",
    "LoadRecord",
    "PossibleDuplicate",
    "QuestionScope",
    "RequestEnd",
    "RunRef",
    "StaleDocument",
    "check_location",
    "document_group",
    "feedback_between",
    "is_superseded",
    "key_of",
    "loads_between",
    "location_of",
    "outcome_of",
    "ratings",
    "requests_between",
    "sqlite_engine",
    "submissions",
]
