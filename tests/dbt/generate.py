"""
Write the generated files of dbt/: ``python -m tests.dbt.generate``.

The staging models and their columns come from the datasets of the package, the marts from the SQL of its views.
"""

from __future__ import annotations

import re
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

import yaml

from airflow_provider_assistant.lake.datasets import DATASETS
from airflow_provider_assistant.lake.warehouse import VIEWS, views
from airflow_provider_assistant.lake.warehouse.tables import METRICS, PARTITIONS, dataset_table

PROJECT = Path(__file__).parents[2] / "dbt"
STAGING, MARTS = "models/staging", "models/marts"
COMMAND = "python -m tests.dbt.generate"

# The columns that say what a row belongs to. The columns below identify a row within them.
SCOPE = ("service", "tenant_id", "site_id")
# Columns of a key that may be null.
NULLABLE = ("tenant_id", "tag")
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
    "evaluations": ("name", "scorer", *_TASK),
    "answers": ("request_id",),
    "evaluation_answers": ("path", "key", "repetition"),
}
VIEW_KEYS = {
    "statistics_daily": ("date",),
    "statistics_history": ("series", "period", "metric"),
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
    "evaluations_daily": ("date", "name", "scorer"),
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
    "answers_weekly": "answered <= asked",
    "questions_rated_bad": "bad > 0 and bad + good <= ratings",
}
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
ROWS_OF_LOADS = "rows = created + unchanged + skipped + rejected + ambiguous + failed"
# A loop over the metrics that are columns, instead of the columns.
METRIC_COLUMNS = """
    {%- for row in statistics_metrics() %}
    , max(value) FILTER (WHERE metric = '{{ row.metric.replace("'", "''") }}')
        AS "{{ row.column_name.replace('"', '""') }}"
    {%- endfor %}"""
# A night without ratings is a partition without rows. A dataset that was never exported is not late.
LOADED_AT = (
    "select coalesce(max(loaded_at), current_timestamp) "
    "from {{ this.incorporate(path={'identifier': 'partitions'}) }} "
    "where dataset = '{{ this.identifier }}'"
)
# Datasets that most users export every night; others may be late without a fault.
NIGHTLY = ("statistics", "statistics_raw", "limits", "feedback", "requests", "loads")


def generated() -> dict[str, str]:
    """Return the text of every generated file, by its path in dbt/."""
    texts = {}
    for dataset in DATASETS:
        texts[f"{STAGING}/stg_assistant__{dataset}.sql"] = _staging_model(dataset)
    for view in VIEWS:
        texts[f"{MARTS}/assistant__{view}.sql"] = _mart(view)
    texts[f"{STAGING}/_sources.yml"] = _yaml({"sources": [_source()]})
    staging_models = [_staging_properties(dataset) for dataset in DATASETS]
    texts[f"{STAGING}/_models.yml"] = _yaml({"models": staging_models})
    marts = [_mart_properties(view) for view in VIEWS]
    texts[f"{MARTS}/_models.yml"] = _yaml({"models": marts})
    return texts


def _staging_model(dataset: str) -> str:
    columns = ",\n".join(f'    "{column}"' for column in dataset_table(dataset).columns)
    return f"-- {COMMAND}\nselect\n{columns}\nfrom {{{{ source('assistant', '{dataset}') }}}}\n"


def _mart(view: str) -> str:
    sql = _view_sql(view, metrics=METRIC_COLUMNS)
    sql = sql.replace(f"CREATE OR REPLACE VIEW assistant.{view} AS\n", "")
    return f"-- {COMMAND}\n" + re.sub(r"\bassistant\.(\w+)", _relation, sql)


def _view_sql(view: str, metrics: str = "") -> str:
    template = files(views.__package__).joinpath("views", f"{view}.sql").read_text("utf-8")
    return Template(template).substitute(schema="assistant", metrics=metrics)


def _relation(match: re.Match[str]) -> str:
    name = match[1]
    if name in VIEWS:
        return f"{{{{ ref('assistant__{name}') }}}}"
    if name in DATASETS:
        return f"{{{{ ref('stg_assistant__{name}') }}}}"
    return f"{{{{ source('assistant', '{name}') }}}}"


def _source() -> dict[str, Any]:
    tables: list[dict[str, Any]] = []
    for dataset in DATASETS:
        table: dict[str, Any] = {"name": dataset, "description": DATASETS[dataset].description}
        if dataset not in NIGHTLY:
            table["config"] = {"freshness": None}
        tables.append(table)
    for definition in (PARTITIONS, METRICS):
        columns = [_column(name, text) for name, text in definition.descriptions.items()]
        table = {"name": definition.name, "description": definition.description}
        tables.append({**table, "config": {"freshness": None}, "columns": columns})
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
    table = dataset_table(dataset)
    optional = {column.name for column in DATASETS[dataset].schema() if column.nullable}
    columns = []
    for name, data_type in table.columns.items():
        tests: list[Any] = []
        if name not in optional:
            tests.append("not_null")
        if (dataset, name) in ACCEPTED:
            values = list(ACCEPTED[dataset, name])
            tests.append({"accepted_values": {"arguments": {"values": values}}})
        column = _column(name, table.descriptions[name], *tests)
        columns.append({**column, "data_type": data_type.lower()})
    tests = []
    if dataset in DATASET_KEYS:  # two findings may be equal
        where = {"config": {"where": HAS_KEY[dataset]}} if dataset in HAS_KEY else {}
        key = [*SCOPE, *DATASET_KEYS[dataset]]
        tests.append(_test("unique_combination", columns=key, **where))
    if dataset in REPLIES:
        parent = REPLIES[dataset]
        key = [*SCOPE, *DATASET_KEYS[parent]]
        tests.append(_test("in_parent", to=f"ref('stg_assistant__{parent}')", columns=key))
    if dataset == "loads":
        tests.append(_test("always", expression=ROWS_OF_LOADS))
    return {
        "name": f"stg_assistant__{dataset}",
        "description": table.description,
        "data_tests": tests,
        "columns": columns,
    }


def _mart_properties(view: str) -> dict[str, Any]:
    sql = _view_sql(view)
    header, _, _ = sql.partition("CREATE")
    descriptions = dict(views.COLUMN.findall(sql))
    key = [name for name in SCOPE if name in descriptions] + list(VIEW_KEYS[view])
    columns = []
    for name, description in descriptions.items():
        is_required = name in key and name not in NULLABLE
        columns.append(_column(name, description, *(["not_null"] if is_required else [])))
    tests = [_test("unique_combination", columns=key)]
    if view in VIEW_RULES:
        tests.append(_test("always", expression=VIEW_RULES[view]))
    properties = {
        "name": f"assistant__{view}",
        "description": " ".join(header.replace("--", " ").split()),
        "data_tests": tests,
        "columns": columns,
    }
    # As a table, it could be of an older load than what else its readers read.
    if any(_reads(other, view) for other in VIEWS):
        properties["config"] = {"materialized": "view"}
    return properties


def _reads(view: str, other: str) -> bool:
    return bool(re.search(rf"\b(FROM|JOIN) assistant\.{other}\b", _view_sql(view)))


def _column(name: str, description: str, *tests: Any) -> dict[str, Any]:
    column: dict[str, Any] = {"name": name, "description": description}
    if tests:
        column["data_tests"] = list(tests)
    return column


def _test(name: str, *, config: dict[str, Any] | None = None, **arguments: Any) -> dict[str, Any]:
    test: dict[str, Any] = {"arguments": arguments}
    if config:
        test["config"] = config
    return {name: test}


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
