"""Open an Iceberg catalog, repeat commits that meet others, and explain errors."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from airflow.sdk.log import redact  # type: ignore[attr-defined]  # no public module has it
from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_random_exponential

from airflow_provider_assistant.exceptions import (
    NOTHING_CHANGED,
    AssistantError,
    AssistantInputError,
    AssistantWarehouseError,
)

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

# Attempts to commit against concurrent writers. Each includes the retries of pyiceberg.
ATTEMPTS = 10
EACH_DAY_IS_WHOLE = "Each day has its old rows or its new ones."


def open_catalog(name: str, properties: Mapping[str, Any]) -> Catalog:
    """
    Return an Iceberg catalog.

    :param name: Name of the catalog in the configuration of pyiceberg: its environment variables, such as
        ``PYICEBERG_CATALOG__DEFAULT__URI``, or the file ``.pyiceberg.yaml``.
    :param properties: Properties that override the configuration.
    :raises AssistantInputError: pyiceberg is not installed, or the properties are incomplete.
    :raises AssistantWarehouseError: The catalog cannot be opened.
    """
    try:
        from pyiceberg.catalog import load_catalog
    except ImportError as error:
        raise AssistantInputError(
            "pyiceberg is not installed on this worker",
            safe=NOTHING_CHANGED,
            todo="Run pip install 'airflow-provider-assistant[iceberg]'.",
            field="catalog",
        ) from error
    with explained(f"Iceberg catalog {name!r}"):
        return load_catalog(name, **properties)


def existing_table(catalog: Catalog, identifier: str) -> Table | None:
    """Return a table, or None if there is none."""
    from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError

    try:
        return catalog.load_table(identifier)
    except (NoSuchNamespaceError, NoSuchTableError):
        return None


def attempts() -> Retrying:
    """Return attempts to commit: each in a ``with`` block that reads the table first."""
    from pyiceberg import exceptions

    # A conflict with a concurrent writer, or a commit with an unknown result. The next attempt reads the table again,
    # so a commit that took effect is not repeated.
    retried = (
        exceptions.CommitFailedException,
        exceptions.CommitStateUnknownException,
        exceptions.NamespaceAlreadyExistsError,
        exceptions.ServiceUnavailableError,
        exceptions.TableAlreadyExistsError,
        exceptions.ValidationException,
        # Catalogs in a database.
        sa.exc.IntegrityError,
        sa.exc.OperationalError,
    )
    return Retrying(
        retry=retry_if_exception_type(retried),
        stop=stop_after_attempt(ATTEMPTS),
        wait=wait_random_exponential(multiplier=0.1, max=10),
        reraise=True,
    )


@contextlib.contextmanager
def explained(what: str) -> Iterator[None]:
    """Convert any error of a catalog or its storage into an AssistantWarehouseError."""
    try:
        yield
    except AssistantError:
        raise
    except Exception as error:  # noqa: BLE001
        # Catalogs and storages raise many exceptions, without a common base class. Their texts may contain rows, and
        # secrets that a catalog refused.
        raise AssistantWarehouseError(
            str(redact(f"{what}: {first_line(error)}")),
            safe=EACH_DAY_IS_WHOLE,
            todo="Correct the properties of the catalog or the rights of its user, then run the task again.",
        ) from None


def first_line(error: Exception) -> str:
    """Return the kind of an error and the beginning of its text."""
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0]:.300}" if lines else type(error).__name__


@contextlib.contextmanager
def no_warnings() -> Iterator[None]:
    """Ignore the warning of pyiceberg that there was nothing to delete."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Delete operation did not match any records", UserWarning)
        yield
