"""What both warehouses share: the views, the days of the lake, and the result of a load."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import date
from importlib import resources

from airflow_provider_assistant.exceptions import NOTHING_CHANGED, AssistantInputError
from airflow_provider_assistant.lake.datasets import DATASETS
from airflow_provider_assistant.lake.files import Day, days_of


@dataclass(slots=True)
class Loaded:
    """
    The result of a load into the warehouse.

    :param rows: Number of rows that were loaded, by dataset.
    :param replaced: Number of rows that were there before.
    :param partitions: Number of days that were loaded.
    :param unchanged: Number of days that the warehouse had as they are.
    :param kept: Number of days that the lake no longer has; their rows stay.
    :param last_day: The newest day of these datasets in the warehouse; None if it has none.
    """

    rows: dict[str, int] = field(default_factory=dict)
    replaced: int = 0
    partitions: int = 0
    unchanged: int = 0
    kept: int = 0
    last_day: date | None = None


def views() -> dict[str, str]:
    """Return the SQL of the views by name, in an order in which they can be created. The schema is ``$schema``."""
    text = resources.files(__package__).joinpath("views.sql").read_text()
    return dict(re.findall(r"^CREATE VIEW \$schema\.(\w+) AS\n(.*?);$", text, re.DOTALL | re.MULTILINE))


def days_to_load(root: str, names: Iterable[str] | None) -> dict[str, dict[date, Day]]:
    """
    Return the days of datasets by name.

    :param root: Folder of the datasets.
    :param names: The datasets. Default: None, all of this package that were ever exported.
    :raises AssistantInputError: A dataset was never exported: the path may be mistyped.
    """
    found = {name: days_of(root, name) for name in (DATASETS if names is None else names)}
    missing = [name for name, days in found.items() if not days]
    if len(missing) == len(found) or (names is not None and missing):
        raise AssistantInputError(
            f"{root!r} has no files of {', '.join(missing) or 'any dataset'}",
            safe=NOTHING_CHANGED,
            todo="Give the output_path of the exports, and run them before this task.",
            field="output_path" if names is None else "datasets",
        )
    return {name: days for name, days in found.items() if days}


def quoted(name: str) -> str:
    """Return a name for SQL."""
    doubled = name.replace('"', '""')
    return f'"{doubled}"'


def literal(text: str) -> str:
    """Return a text for SQL."""
    doubled = text.replace("'", "''")
    return f"'{doubled}'"
