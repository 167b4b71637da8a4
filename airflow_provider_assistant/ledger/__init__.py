"""
The ledger: a SQL record of every effect on the API, with its claim and its outcome.

The specified API has no list, update or delete and no idempotency key, so the client keeps the record itself. It
commits a claim before each request and the outcome after it. A claim without an outcome means that the request may have
happened. The API cannot return ratings either; exports read them from the ledger.
"""

from airflow_provider_assistant.ledger.chats import (
    AcceptedQuestion,
    ChatLedger,
    RequestEnd,
    find_request,
    record_ends,
)
from airflow_provider_assistant.ledger.claims import ScopeLedger
from airflow_provider_assistant.ledger.document_groups import DocumentGroup, document_group
from airflow_provider_assistant.ledger.entries import (
    EarlierDocument,
    EntryContent,
    LedgerEntry,
    StaleDocument,
    key_of,
)
from airflow_provider_assistant.ledger.leases import LeaseSettings
from airflow_provider_assistant.ledger.load_log import LoadRecord
from airflow_provider_assistant.ledger.location import LedgerLocation, check_location, location_of
from airflow_provider_assistant.ledger.migrate import SCHEMA_VERSION
from airflow_provider_assistant.ledger.outcomes import (
    Claim,
    ClaimOutcome,
    outcome_of,
    outcome_of_error,
    outcome_of_reply,
)
from airflow_provider_assistant.ledger.ratings import (
    REPEATED,
    RatingLedger,
    is_repeated,
    outcome_of_rating,
    rating_claim,
    rating_key,
)
from airflow_provider_assistant.ledger.schema import RunRef
from airflow_provider_assistant.ledger.scopes import ChatScope, DocumentScope, RatingScope, Site, service_of
from airflow_provider_assistant.ledger.single import claim_one, send_once
from airflow_provider_assistant.ledger.sqlite_file import sqlite_engine
from airflow_provider_assistant.ledger.store import Ledger

__all__ = [
    "REPEATED",
    "SCHEMA_VERSION",
    "AcceptedQuestion",
    "ChatLedger",
    "ChatScope",
    "Claim",
    "ClaimOutcome",
    "DocumentGroup",
    "DocumentScope",
    "EarlierDocument",
    "EntryContent",
    "LeaseSettings",
    "Ledger",
    "LedgerEntry",
    "LedgerLocation",
    "LoadRecord",
    "RatingLedger",
    "RatingScope",
    "RequestEnd",
    "RunRef",
    "ScopeLedger",
    "Site",
    "StaleDocument",
    "check_location",
    "claim_one",
    "document_group",
    "find_request",
    "is_repeated",
    "key_of",
    "location_of",
    "outcome_of",
    "outcome_of_error",
    "outcome_of_rating",
    "outcome_of_reply",
    "rating_claim",
    "rating_key",
    "record_ends",
    "send_once",
    "service_of",
    "sqlite_engine",
]
