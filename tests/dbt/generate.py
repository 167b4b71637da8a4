"""
Write the generated files of dbt/: ``python -m tests.dbt.generate``.

The staging models and their columns come from the datasets of the package, the marts from the SQL of its views.
"""

from __future__ import annotations

import itertools
import re
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

import yaml

from airflow_provider_assistant.lake import DATASETS, warehouse
from airflow_provider_assistant.lake.warehouse.tables import METRICS

PROJECT = Path(__file__).parents[2] / "dbt"
STAGING, MARTS = "models/staging", "models/marts"
COMMAND = "python -m tests.dbt.generate"

# The columns that say what a row belongs to. The columns below identify a row within them.
SCOPE = ("service", "tenant_id", "site_id")
_TASK = ("dag_id", "run_id", "task_id", "map_index")
_READ = ("user_label", "read", "captured_at", "item")
DATASET_KEYS = {
    "statistics": ("captured_at", "metric"),
    "statistics_raw": ("captured_at",),
    "limits": ("captured_at", "metric"),
    "reads": (*_READ, "metric"),
    "reads_raw": _READ,
    "feedback": ("request_id", "rating", "sent_at"),
    "requests": ("request_id",),
    "loads": ("endpoint", "source", "started_at", *_TASK),
    "document_differences": ("compared_at", "document_id", "kind"),
    "evaluations": ("name", "scorer", *_TASK),
    "answers": ("request_id",),
    "evaluation_answers": ("path", "key", "repetition"),
}
VIEW_KEYS = {
    "statistics_daily": ("date",),
    "statistics_history": ("date", "series", "metric"),
    "counters_daily": ("date", "metric"),
    "documents_daily": ("date",),
    "limits_daily": ("date", "limit_name"),
    "feedback_latest": ("request_id",),
    "feedback_daily": ("date",),
    "feedback_weekly": ("week",),
    "latency_daily": ("date",),
    "latency_weekly": ("week",),
    "answers_weekly": ("week",),
    "questions_rated_bad": ("question",),
    "evaluations_daily": ("date", "name", "tag", "scorer"),
}
# What is true for every row of a view.
_PERCENTILES = "seconds_p50 <= seconds_p95 and seconds_p95 <= seconds_p99 and seconds_p99 <= seconds_max"
_LATENCY = f"complete + failed <= requests and {_PERCENTILES}"
VIEW_RULES = {
    "counters_daily": "difference >= 0",
    "feedback_daily": "good + bad + other = ratings",
    "feedback_weekly": "good + bad + other = ratings",
    "latency_daily": _LATENCY,
    "latency_weekly": _LATENCY,
}
# The columns of a table that the files do not have.
TABLE_COLUMNS = {"date": "Day of the partition", "loaded_at": "When the row was loaded"}
# Other rows have no identity: a request that may not have been sent has no id.
HAS_KEY = dict.fromkeys(("requests", "answers"), "request_id is not null")
# A service can add words of its own; these are words of the package.
ACCEPTED = {
    ("requests", "state"): ("complete", "failed", "lost", "timed_out", "open", "ambiguous"),
    ("loads", "outcome"): ("succeeded", "failed", "deferred", "unfinished"),
    ("answers", "kind"): ("batch", "chat"),
    ("answers", "status"): ("complete", "failed", "timed_out", "lost", "not_submitted"),
}
# Every row of the first dataset is from a reply of the second.
REPLIES = {"statistics": "statistics_raw", "reads": "reads_raw"}
# Datasets that most users export every night; others may be late without a fault.
ROWS_OF_LOADS = "rows = created + unchanged + skipped + rejected + ambiguous + failed"
# A night without ratings is a partition without rows. A dataset that was never exported is not late.
LOADED_AT = (
    "select coalesce(max(loaded_at), current_timestamp) "
    "from {{ this.incorporate(path={'identifier': 'partitions'}) }} "
    "where dataset = '{{ this.identifier }}'"
)
NIGHTLY = ("statistics", "statistics_raw", "limits", "feedback", "requests", "loads")


def generated() -> dict[str, str]:
    """Return the text of every generated file, by its path in dbt/."""
    texts = {}
    for dataset in DATASETS:
        texts[f"{STAGING}/stg_assistant__{dataset}.sql"] = _staging_model(dataset)
    for view in warehouse.VIEWS:
        texts[f"{MARTS}/assistant__{view}.sql"] = _mart(view)
    texts[f"{STAGING}/_sources.yml"] = _yaml({"sources": [_source()]})
    staging_models = [_staging_properties(dataset) for dataset in DATASETS]
    texts[f"{STAGING}/_models.yml"] = _yaml({"models": staging_models})
    marts = [_mart_properties(view) for view in warehouse.VIEWS]
    texts[f"{MARTS}/_models.yml"] = _yaml({"models": marts})
    return texts


def _staging_model(dataset: str) -> str:
    columns = ",\n".join(f'    "{column}"' for column in warehouse.columns(dataset))
    return f"-- {COMMAND}\nselect\n{columns}\nfrom {{{{ source('assistant', '{dataset}') }}}}\n"


def _mart(view: str) -> str:
    if view == "statistics_daily":
        # Its columns depend on the rows. The operator has made the view of them.
        relation = f"{{{{ source('assistant', '{view}') }}}}"
        return f"-- {COMMAND}\nselect * from {relation}\n"
    sql = _view_sql(view)
    sql = re.sub(r"^CREATE OR REPLACE VIEW .* AS\n", "", sql, flags=re.MULTILINE)
    sql = re.sub(r"\$schema\.(\w+)", _relation, sql)
    return f"-- {COMMAND}\n" + Template(sql).substitute()


def _relation(match: re.Match[str]) -> str:
    name = match[1]
    if name == "metrics":
        return "{{ source('assistant', 'metrics') }}"
    model = f"assistant__{name}" if name in warehouse.VIEWS else f"stg_assistant__{name}"
    return f"{{{{ ref('{model}') }}}}"


def _view_sql(view: str) -> str:
    return files(warehouse).joinpath("views", f"{view}.sql").read_text("utf-8")


def _source() -> dict[str, Any]:
    tables = []
    for dataset in DATASETS:
        table: dict[str, Any] = {"name": dataset, "description": DATASETS[dataset].description}
        if dataset not in NIGHTLY:
            table["config"] = {"freshness": None}
        tables.append(table)
    view = {"name": "statistics_daily", "description": _description_of_view("statistics_daily")}
    metrics = {"name": "metrics", "description": METRICS.description}
    tables += [table | {"config": {"freshness": None}} for table in (view, metrics)]
    return {
        "name": "assistant",
        "description": "The tables that AssistantParquetToWarehouseOperator loads.",
        "database": "{{ var('assistant_database') or target.database }}",
        "schema": "{{ var('assistant_schema') }}",
        "config": {
            "freshness": {
                "warn_after": {"count": 36, "period": "hour"},
                "error_after": {"count": 72, "period": "hour"},
            },
            "loaded_at_query": LOADED_AT,
        },
        "tables": tables,
    }


def _staging_properties(dataset: str) -> dict[str, Any]:
    definition = DATASETS[dataset]
    required = {column.name for column in definition.schema() if not column.nullable}
    descriptions = {**definition.descriptions(), **TABLE_COLUMNS}
    columns = []
    for name, data_type in warehouse.columns(dataset).items():
        tests: list[Any] = []
        if name in required or name in TABLE_COLUMNS:
            tests.append("not_null")
        if (dataset, name) in ACCEPTED:
            values = list(ACCEPTED[dataset, name])
            tests.append({"accepted_values": {"arguments": {"values": values}}})
        column = {"name": name, "description": descriptions[name], "data_type": data_type.lower()}
        columns.append(column | ({"data_tests": tests} if tests else {}))
    model_tests = []
    # Two findings may be equal.
    if dataset in DATASET_KEYS:
        unique = {"arguments": {"columns": [*SCOPE, *DATASET_KEYS[dataset]]}}
        if dataset in HAS_KEY:
            unique["config"] = {"where": HAS_KEY[dataset]}
        model_tests.append({"unique_combination": unique})
    if dataset in REPLIES:
        replies = REPLIES[dataset]
        key = [*SCOPE, *DATASET_KEYS[replies]]
        arguments = {"to": f"ref('stg_assistant__{replies}')", "columns": key}
        model_tests.append({"in_parent": {"arguments": arguments}})
    if dataset == "loads":
        arguments = {"expression": ROWS_OF_LOADS}
        model_tests.append({"always": {"arguments": arguments}})
    return {
        "name": f"stg_assistant__{dataset}",
        "description": definition.description,
        "data_tests": model_tests,
        "columns": columns,
    }


def _mart_properties(view: str) -> dict[str, Any]:
    scope = [name for name in SCOPE if re.search(rf"\b{name}\b", _view_sql(view))]
    key = [*scope, *VIEW_KEYS[view]]
    columns = []
    for name in key:
        column: dict[str, Any] = {"name": name}
        if name != "tenant_id":
            column["data_tests"] = ["not_null"]
        columns.append(column)
    return {
        "name": f"assistant__{view}",
        "description": _description_of_view(view),
        "data_tests": [{"unique_combination": {"arguments": {"columns": key}}}],
        "columns": columns,
    }


def _description_of_view(view: str) -> str:
    """Return the comment at the beginning of a view's file."""
    lines = _view_sql(view).splitlines()
    comments = itertools.takewhile(lambda line: line.startswith("--"), lines)
    return " ".join(line.removeprefix("--").strip() for line in comments)


def _yaml(content: dict[str, Any]) -> str:
    text = yaml.safe_dump(content, sort_keys=False, default_flow_style=None, allow_unicode=True, width=100)
    return f"# {COMMAND}\n{text}"


def write() -> None:
    """Write the generated files, and remove those that are not generated any more."""
    texts = generated()
    for path in (*PROJECT.glob(f"{STAGING}/*"), *PROJECT.glob(f"{MARTS}/*")):
        if str(path.relative_to(PROJECT)) not in texts:
            path.unlink()
    for name, text in texts.items():
        path = PROJECT / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")


if __name__ == "__main__":
    write()
