"""
Write what the pages repeat from the code: ``python -m tests.docs.generated``.

Each table below names its page, its heading, and the cells that the code knows. Other cells are written by people; they
stay with their row, which the first of the known cells identifies.
"""

from __future__ import annotations

import inspect
import re
import runpy
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import yaml

from airflow_provider_assistant.api import errors
from airflow_provider_assistant.evaluation.rubrics import JudgeOptions
from airflow_provider_assistant.evaluation.scores import score_cases, to_table
from airflow_provider_assistant.evaluation.summary import Summary
from airflow_provider_assistant.hooks import extra
from airflow_provider_assistant.hooks.assistant import AssistantHook
from airflow_provider_assistant.lake import datasets
from airflow_provider_assistant.loading.counts import LoadCounts
from airflow_provider_assistant.loading.findings import findings_schema
from airflow_provider_assistant.provider_info import get_provider_info
from tests.contract.cases import CASES, Case
from tests.docs import command_line, runbook
from tests.docs.pages import ROOT, codes, page_with, section, span, table
from tests.lowest import declared, lower_bound
from tests.matrix import table as matrix
from tests.versions import SINCE

SITE = ROOT / "docs" / "site"
PARAMETERS = SimpleNamespace(**runpy.run_path(str(SITE / "parameters.py")))
REGISTRY = SimpleNamespace(**runpy.run_path(str(SITE / "registry.py")))
OPERATORS, ERRORS, DATASETS = (f"docs/reference/{name}.md" for name in ("operators", "errors", "datasets"))
EVALUATION, HOOK = (f"docs/reference/{name}.md" for name in ("datasets", "hook"))
OBSERVE = "docs/operate/observe.md"
SCORES, COMPATIBILITY = "docs/evaluate/golden-set.md", "docs/reference/compatibility.md"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
tasks: Callable[[], dict[str, type]] = cache(PARAMETERS.tasks)


@dataclass(frozen=True)
class Table:
    """
    A table of a page.

    :param page: Path of the page.
    :param heading: The heading above the table.
    :param rows: The known cells of each row, by column.
    """

    page: str
    heading: str
    rows: list[dict[str, str]]

    def written(self, text: str) -> str:
        """Return the text of the page with the known cells of this table."""
        key = next(iter(self.rows[0]))
        start, end = span(text, self.heading)
        head = rf"^(?P<indent> *)\|(?:.* \|)? {re.escape(key)} \|.*\n *\|[-|]+\|\n"
        found = re.compile(rf"{head}(?: *\|.*\n)*", re.MULTILINE).search(text, start, end)
        assert found, f"{self.page} has no table with {key!r} below {self.heading!r}"
        kept = {row[key]: row for row in table(re.sub("^ +", "", found[0], flags=re.MULTILINE))}
        lines = found[0].splitlines()[:2]
        titles = [title.strip() for title in lines[0].split("|")[1:-1]]
        for row in self.rows:
            cells = {**kept.get(row[key], {}), **row}
            line = "".join(f" {cells.get(title, '')} |" for title in titles).replace("|  |", "| |")
            lines.append(f"{found['indent']}|{line}")
        return text[: found.start()] + "\n".join(lines) + "\n" + text[found.end() :]


def code(value: object) -> str:
    return f"`{value}`"


def all_code(values: Iterable[object]) -> str:
    return ", ".join(map(code, values))


def yes(fact: bool) -> str:
    return "yes" if fact else "no"


# -- operators and hook ----------------------------------------------------------------------------


def route(case: Case) -> str:
    """Return method and path of an endpoint, as the pages write them."""
    path = re.sub(r"^/m2m/(sites|tenants)/[^/]+", "", case.path)
    return f"{case.method} …{path}"


# Methods of the hook in the order of the specification's endpoints.
METHODS = (
    *("get_limits", "upload_document", "create_text_document", "create_qa_document", "chat", "submit_chat"),
    *("get_chat_request", "send_feedback", "close_session", "get_statistics"),
)


def called(method: str) -> str:
    """Return a method of the hook with its positional parameters."""
    parameters = inspect.signature(getattr(AssistantHook, method)).parameters.values()
    names = [one.name for one in parameters if one.kind is one.POSITIONAL_OR_KEYWORD and one.name != "self"]
    return code(f"{method}({', '.join(names)})")


def hook_methods() -> list[dict[str, str]]:
    cases = sorted(CASES, key=lambda case: case.row)
    rows = [
        {"Method": called(method), "Endpoint": code(route(case))} for method, case in zip(METHODS, cases, strict=True)
    ]
    return [*rows, {"Method": called("call"), "Endpoint": "any other"}]


# -- connection, configuration, errors, metrics ----------------------------------------------------


def configuration() -> list[dict[str, str]]:
    return [
        {
            "Option": code(option),
            "Section": code(name),
            "Type": facts["type"],
            "Default": facts["default"] or "empty",
        }
        for name, content in get_provider_info()["config"].items()
        for option, facts in content["options"].items()
    ]


def connection_fields() -> list[dict[str, str]]:
    rows = [
        {"Where": code(name), "Field": label, "Default": "required"}
        for name, label in extra.STANDARD_FIELDS["relabeling"].items()
    ]
    for name, field in extra.ConnectionExtra.model_fields.items():
        default = "none" if field.default in (None, ()) else f"{field.default:g}"
        if isinstance(field.default, bool):
            default = str(field.default).lower()
        meaning = (field.description or "").removesuffix(".")
        rows.append({"Where": code(name), "Field": extra.title_of(name), "Default": default, "Meaning": meaning})
    return rows


def repeats(*, in_task: bool, by_airflow: bool) -> dict[str, str]:
    """Return the cells that say who sends a request again after an error."""
    return {"Repeated in the task": yes(in_task), "Airflow retries": yes(by_airflow)}


def statuses() -> list[dict[str, str]]:
    """Return the rows of the statuses that the service itself sends."""
    of_service = {status: row for status, row in errors.STATUSES.items() if status not in errors.ONLY_GATEWAYS}
    rows = {**of_service, "5xx": errors.OTHER_5XX, "other 4xx": errors.OTHER_4XX, "other": errors.UNEXPECTED}
    return [
        {"Status": str(status), "Exception": code(row.error.__name__)}
        | repeats(in_task=row.may_pass, by_airflow=row.may_pass)
        | {"Condition": row.meaning}
        for status, row in rows.items()
    ]


def endpoint_tags() -> list[dict[str, str]]:
    return [{"`endpoint`": code(case.call("r").endpoint), "Endpoint": code(route(case))} for case in CASES] + [
        {"`endpoint`": code("other")},
    ]


# -- datasets and files ----------------------------------------------------------------------------


def columns(schema: Any, *, nullable: bool = True) -> list[dict[str, str]]:
    """Return name and type of each column; the name of list items differs between versions of pyarrow."""
    types = [re.sub(r"<\w+: ", "<", str(field.type)) for field in schema]
    rows = [{"Column": code(field.name), "Type": code(kind)} for field, kind in zip(schema, types, strict=True)]
    known = [{"Nullable": yes(field.nullable)} if nullable else {} for field in schema]
    return [row | more for row, more in zip(rows, known, strict=True)]


def in_words(schema: dict[str, Any]) -> str:
    """Return a type of a JSON schema in the words of the page."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "anyOf" in schema:
        return " or ".join(map(in_words, schema["anyOf"]))
    if "enum" in schema:
        return all_code(schema["enum"])
    nested = {"array": ("list", "items"), "object": ("map", "additionalProperties")}.get(schema["type"])
    return f"{nested[0]} of {in_words(schema[nested[1]])}" if nested else schema["type"]


def summary() -> list[Table]:
    schema = Summary.model_json_schema(mode="serialization")
    models = {"Summary": schema, **schema["$defs"]}
    return [
        Table(EVALUATION, name, [{"Field": code(f), "Type": in_words(k)} for f, k in model["properties"].items()])
        for name, model in models.items()
    ]


# -- evaluation ------------------------------------------------------------------------------------


# -- the rest --------------------------------------------------------------------------------------


def alerts() -> list[dict[str, str]]:
    groups = yaml.safe_load((ROOT / "docs/operate/observability/alerts.yml").read_text())["groups"]
    rules = [rule for group in groups for rule in group["rules"]]
    return [{"Alert": code(rule["alert"]), "Severity": rule["labels"]["severity"]} for rule in rules]


def lowest_versions() -> list[dict[str, str]]:
    """Return the lower bounds of the dependencies that the page explains."""
    bounds = {requirement.name: lower_bound(requirement) for group in declared().values() for requirement in group}
    named = [codes(row["Dependency"])[0] for row in table(section(COMPATIBILITY, "Lowest versions"))]
    return [{"Dependency": code(name), "Lowest version": bounds[name]} for name in named]


def layers(text: str) -> str:
    """Return a page with the layers of the package in its first block of text."""
    contract = next(found for found in PROJECT["tool"]["importlinter"]["contracts"] if found["type"] == "layers")
    drawn = "\n".join(contract["layers"])
    return re.sub(r"(?<=```text\n).*?(?=\n```)", lambda _: drawn, text, count=1, flags=re.DOTALL)


COUNTS = {field.name for field in fields(LoadCounts) if field.name != "seconds"}
COUNTED = "The [counts of a load](operators.md#counts-of-a-load), if the task has such a count"
# Columns that at least so many datasets have are described once.
SHARED = 2


def datasets_page(text: str) -> str:
    """Return the page of the datasets with the sections that the code describes."""
    described = {dataset.name: column_rows(dataset) for dataset in datasets.DATASETS.values()}
    number = Counter(row for rows in described.values() for row in rows.values())
    shared = {name: row for rows in described.values() for name, row in rows.items() if number[row] >= SHARED}
    head = "| Column | Type | Meaning |\n|---|---|---|\n"
    sections = [f"## Common columns\n\n{head}{''.join(shared.values())}"]
    first = {tuple(rows.values()): name for name, rows in reversed(described.items())}
    for dataset in datasets.DATASETS.values():
        rows = described[dataset.name]
        equal = first[tuple(rows.values())]
        if equal != dataset.name:
            sections.append(
                f"## {dataset.name}\n\n{dataset.description}. The columns are those of [{equal}](#{equal}).\n"
            )
            continue
        counts = [name for name in rows if dataset is datasets.TRIES and name in COUNTS]
        own = [row for name, row in rows.items() if shared.get(name) != row and name not in counts]
        if counts:
            own.append(f"| {all_code(counts)} | `int32` or null | {COUNTED} |\n")
        common = all_code(name for name, row in rows.items() if shared.get(name) == row)
        parts = [f"## {dataset.name}", "", f"{dataset.description}.", ""]
        if own:
            parts.append(f"{head}{''.join(own)}")
        sections.append("\n".join([*parts, f"[Common columns](#common-columns): {common}.\n"]))
    begin, end = (f"<!-- datasets: {word} -->" for word in ("begin", "end"))
    before, _, rest = text.partition(begin)
    return f"{before}{begin}\n\n" + "\n".join(sections) + f"\n{end}{rest.partition(end)[2]}"


def column_rows(dataset: Any) -> dict[str, str]:
    """Return the line of each column of a dataset in a table."""
    lines = {}
    for row, meaning in zip(columns(dataset.schema()), dataset.descriptions().values(), strict=True):
        kind = row["Type"] if row["Nullable"] == "no" else f"{row['Type']} or null"
        lines[codes(row["Column"])[0]] = f"| {row['Column']} | {kind} | {meaning} |\n"
    return lines


def tables() -> list[Table]:
    return [
        Table(HOOK, "Sync", hook_methods()),
        Table("docs/reference/configuration.md", "Configuration", configuration()),
        Table("docs/start/connection.md", "Fields", connection_fields()),
        Table(ERRORS, "By HTTP status", statuses()),
        Table(OBSERVE, "Tags", endpoint_tags()),
        Table(DATASETS, "Findings file", columns(findings_schema())),
        Table(EVALUATION, "Scores", columns(to_table(score_cases([], []), [], None).schema, nullable=False)),
        *summary(),
        Table(
            "docs/evaluate/judge.md",
            "Options",
            [
                {"Option": code(name), "Default": code(repr(default))}
                for name, default in JudgeOptions().model_dump().items()
            ],
        ),
        Table(OBSERVE, "Alerts", alerts()),
        Table(COMPATIBILITY, "Lowest versions", lowest_versions()),
        Table(
            COMPATIBILITY,
            "What differs",
            [{"Feature": feature, "From Airflow": ".".join(map(str, since))} for feature, since in SINCE.items()],
        ),
    ]


def generated() -> dict[Path, str]:
    """Return the text of each file that repeats the code."""
    found = {
        ROOT / DATASETS: datasets_page((ROOT / DATASETS).read_text()),
        REGISTRY.ENTRY: REGISTRY.written(),
        command_line.PAGE: command_line.written(),
        runbook.PAGE: runbook.written(),
        matrix.PAGE: matrix.BETWEEN.sub(lambda _: matrix.table(), matrix.PAGE.read_text()),
    }
    contributing = ROOT / "CONTRIBUTING.md"
    found[contributing] = layers(contributing.read_text())
    found[PARAMETERS.PAGE] = PARAMETERS.written(PARAMETERS.PAGE.read_text())
    for one in tables():
        page = page_with(one.page, one.heading)
        found[page] = one.written(found.get(page) or page.read_text())
    return found


if __name__ == "__main__":
    for path, text in generated().items():
        path.write_text(text)
