"""Create the views of the warehouse from the SQL files in this package."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from importlib.resources import files
from string import Template
from typing import TYPE_CHECKING

from airflow_provider_assistant.lake.warehouse.names import literal, quoted

if TYPE_CHECKING:
    from airflow_provider_assistant.lake.warehouse.tables import Warehouse

log = logging.getLogger(__name__)

# A view comes after those that it reads.
VIEWS = (
    "statistics_daily",
    "statistics_history",
    "counters_daily",
    "documents_daily",
    "limits_daily",
    "feedback_latest",
    "feedback_daily",
    "feedback_weekly",
    "latency_daily",
    "latency_weekly",
    "answers_weekly",
    "questions_rated_bad",
    "evaluations_daily",
)
# Wait for the readers of a view that needs new columns, in seconds.
VIEW_TIMEOUT = 20.0
# A column of a view with its description: "count(*) AS ratings, -- Ratings that were sent".
COLUMN = re.compile(r"^    (?:.*\bAS |.*\.)?(\w+),? -- (.+)$", re.MULTILINE)


def create_views(warehouse: Warehouse, metric_by_column: Mapping[str, str]) -> list[str]:
    """
    Create or replace the views whose definition changed.

    :param metric_by_column: Columns of ``statistics_daily``, in their order.
    :return: Views that could not be replaced, because other sessions kept reading them.
    """
    behind: list[str] = []
    for view in VIEWS:
        statements = view_statements(warehouse, view, metric_by_column)
        # After one wait, a single attempt for each of the others: together they would hold up the load for minutes.
        timeout = 0.0 if behind else VIEW_TIMEOUT
        if not warehouse.define(view, statements, timeout=timeout):
            behind.append(view)
    if behind:
        log.warning(
            "Other sessions have been reading these views for %g s, so the next load replaces them: %s.",
            VIEW_TIMEOUT,
            ", ".join(behind),
        )
    return behind


def view_statements(warehouse: Warehouse, view: str, metric_by_column: Mapping[str, str]) -> list[str]:
    """Return the statements that create a view and describe it and its columns."""
    sql = files(__package__).joinpath("views", f"{view}.sql").read_text("utf-8")
    header, _, _ = sql.partition("CREATE")
    description = " ".join(header.replace("--", " ").split())
    schema = quoted(warehouse.store.schema)
    # A placeholder that a template does not have is ignored.
    template = Template(sql)
    descriptions = dict(COLUMN.findall(template.substitute(schema=schema, metrics="")))
    metrics = ""
    if view == "statistics_daily":
        for column, metric in metric_by_column.items():
            value = f"max(value) FILTER (WHERE metric = {literal(metric)})"
            # Each comes after a column of the template, so each begins with a comma.
            metrics += f"\n    , {value} AS {quoted(column)}"
            descriptions[column] = f"Metric {metric}"
    statement = template.substitute(schema=schema, metrics=metrics)
    comment = f"COMMENT ON VIEW {warehouse.name_of(view)} IS {literal(description)}"
    return [statement, comment, *warehouse.column_comments(view, descriptions)]
