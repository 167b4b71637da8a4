"""The dashboard, the alerts and the exporter's mapping use only metrics that the package sends."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
import yaml

from tests.docs.pages import ROOT, codes, section, table

FOLDER = ROOT / "docs/operate/observability"
DASHBOARD = json.loads((FOLDER / "grafana-dashboard.json").read_text())
ALERTS = [rule for group in yaml.safe_load((FOLDER / "alerts.yml").read_text())["groups"] for rule in group["rules"]]
# Suffixes that Prometheus adds to a histogram.
SUFFIXES = {"counter": [""], "gauge": [""], "timer": ["_bucket", "_sum", "_count"]}
SELECTOR = re.compile(r"(airflow_assistant_\w+)(?:\{([^}]*)\})?")


def sent() -> dict[str, tuple[str, set[str]]]:
    """Return kind and tags of each metric from the reference, which another test checks."""
    rows = table((ROOT / "docs/reference/metrics.md").read_text())
    return {codes(row["Metric"])[0]: (row["Kind"], set(codes(row["Tags"]))) for row in rows}


def exported() -> dict[str, set[str]]:
    """Return the labels of every Prometheus metric that the exporter derives from the metrics."""
    mappings = yaml.safe_load((FOLDER / "statsd-exporter.yml").read_text())["mappings"]
    kinds = {"counter": "counter", "observer": "timer", "gauge": "gauge"}
    found: dict[str, set[str]] = {}
    for metric, (kind, tags) in sent().items():
        mapping = next(one for one in mappings if kinds[one["match_metric_type"]] == kind)
        match = re.fullmatch(mapping["match"], f"airflow.{metric}")
        assert match, metric
        name = mapping["name"].replace("${1}", match[1])
        for suffix in SUFFIXES[kind]:
            found[name + suffix] = tags | ({"le"} if suffix == "_bucket" else set())
    return found


def panels() -> list[dict[str, Any]]:
    return [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]


def expressions() -> list[Any]:
    shown = [
        pytest.param(target["expr"], id=f"panel {panel['title']} {target['refId']}")
        for panel in panels()
        for target in panel["targets"]
    ]
    return [*shown, *(pytest.param(rule["expr"], id=rule["alert"]) for rule in ALERTS)]


@pytest.mark.parametrize("expression", expressions())
def test_expressions_name_only_what_exists(expression: str) -> None:
    known = exported()
    selectors = SELECTOR.findall(expression)
    assert selectors
    labels: set[str] = set()
    for name, matchers in selectors:
        assert name in known
        assert set(re.findall(r"(\w+)\s*[!=]~?\"", matchers)) <= known[name]
        labels |= known[name]
    for grouped in re.findall(r"by \(([^)]*)\)", expression):
        assert {label.strip() for label in grouped.split(",")} <= labels
    for open_, close in ("()", "{}", "[]"):
        assert expression.count(open_) == expression.count(close)


def test_every_metric_is_on_the_dashboard() -> None:
    shown = " ".join(target["expr"] for panel in panels() for target in panel["targets"])
    for metric in sent():
        assert re.search(rf"\b{re.escape(f'airflow_{metric}'.replace('.', '_'))}", shown), metric


def test_legends_and_variables_name_only_what_exists() -> None:
    known = exported()
    for panel in panels():
        for target in panel["targets"]:
            labels = set().union(*(known[name] for name, _ in SELECTOR.findall(target["expr"])))
            assert set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"])) <= labels, panel["title"]
    variables = {variable["name"]: variable for variable in DASHBOARD["templating"]["list"]}
    used = set(re.findall(r"\$(?!__)\{?(\w+)", json.dumps([panel["targets"] for panel in panels()])))
    assert used <= set(variables)
    for variable in variables.values():
        if variable["type"] == "query":
            name, label = re.fullmatch(r"label_values\((\w+), (\w+)\)", variable["definition"]).groups()
            assert label in known[name]


def test_panels_neither_overlap_nor_share_an_id() -> None:
    cells: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        at = panel["gridPos"]
        taken = {(at["x"] + x, at["y"] + y) for x in range(at["w"]) for y in range(at["h"])}
        assert not taken & cells, panel["title"]
        assert at["x"] + at["w"] <= 24
        cells |= taken
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(set(ids)) == len(ids)


@pytest.mark.parametrize("rule", ALERTS, ids=lambda rule: rule["alert"])
def test_alerts_say_what_is_wrong(rule: dict[str, Any]) -> None:
    known = exported()
    labels = set().union(*(known[name] for name, _ in SELECTOR.findall(rule["expr"])))
    grouped = re.findall(r"by \(([^)]*)\)", rule["expr"])
    kept = {label.strip() for group in grouped for label in group.split(",")} if "sum" in rule["expr"] else labels
    assert set(re.findall(r"\$labels\.(\w+)", rule["annotations"]["summary"])) <= kept - {"le"}


def test_alerts_are_those_of_the_page() -> None:
    rows = table(section("docs/operate/observe.md", "Alerts"))
    said = {codes(row["Alert"])[0]: row["Severity"] for row in rows}
    assert said == {rule["alert"]: rule["labels"]["severity"] for rule in ALERTS}
