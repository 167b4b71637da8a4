"""The page on metrics, the dashboard, the alerts and the exporter's mapping use what the package sends."""

from __future__ import annotations

import json
import re
from functools import cache
from typing import Any
from unittest.mock import Mock

import pytest
import yaml

from airflow_provider_assistant.observability import metrics
from tests.docs.pages import ROOT, codes, section, table

FOLDER = ROOT / "docs/operate/observability"
DASHBOARD = json.loads((FOLDER / "grafana-dashboard.json").read_text())
ALERTS = [rule for group in yaml.safe_load((FOLDER / "alerts.yml").read_text())["groups"] for rule in group["rules"]]
PANELS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
# Suffixes that Prometheus adds to a histogram.
SUFFIXES = {"counter": [""], "gauge": [""], "timer": ["_bucket", "_sum", "_count"]}
SELECTOR = re.compile(r"(airflow_assistant_\w+)(?:\{([^}]*)\})?")


@cache
def sent() -> dict[str, tuple[str, set[str]]]:
    """Return kind and tags of each metric from the page."""
    rows = table(section("docs/operate/observe.md", "Metrics"))
    return {codes(row["Metric"])[0]: (row["Kind"], set(codes(row["Tags"]))) for row in rows}


def test_the_page_has_the_metrics_that_are_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    stats = Mock()
    monkeypatch.setattr(metrics, "airflow_stats", lambda: stats)
    metrics.request("chat", "200", 1.0)
    metrics.async_completion("complete", 1.0)
    metrics.poll_lag(1.0)
    metrics.pause(1.0)
    metrics.rows("qa", {"created": 1})
    metrics.drafts("qa", 1)
    metrics.questions({"complete": 1})
    metrics.exported_rows("statistics", 1)
    metrics.evaluation("nightly", "passed", means={"chrf": 1.0}, coverage=1.0, pass_rate=1.0)
    kinds = {"incr": "counter", "gauge": "gauge", "timing": "timer"}
    found = {call.args[0]: (kinds[name], set(call.kwargs["tags"])) for call in stats.mock_calls for name in [call[0]]}
    assert sent() == found
    assert set(found) == {text for text in vars(metrics).values() if str(text).startswith("assistant.")}


@cache
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


def labels(expression: str) -> set[str]:
    return set().union(*(exported()[name] for name, _ in SELECTOR.findall(expression)))


def expressions() -> list[Any]:
    shown = [pytest.param(target["expr"], id=panel["title"]) for panel in PANELS for target in panel["targets"]]
    return [*shown, *(pytest.param(rule["expr"], id=rule["alert"]) for rule in ALERTS)]


@pytest.mark.parametrize("expression", expressions())
def test_expressions_name_only_what_exists(expression: str) -> None:
    selectors = SELECTOR.findall(expression)
    assert selectors
    for name, matchers in selectors:
        assert set(re.findall(r"(\w+)\s*[!=]~?\"", matchers)) <= exported()[name]
    for grouped in re.findall(r"by \(([^)]*)\)", expression):
        assert {label.strip() for label in grouped.split(",")} <= labels(expression)
    assert all(expression.count(open_) == expression.count(close) for open_, close in ("()", "{}", "[]"))


def test_every_metric_is_on_the_dashboard() -> None:
    shown = " ".join(target["expr"] for panel in PANELS for target in panel["targets"])
    missing = [name for name in sent() if not re.search(rf"\bairflow_{name.replace('.', '_')}", shown)]
    assert missing == []


def test_legends_variables_and_summaries_name_only_what_exists() -> None:
    for target in (target for panel in PANELS for target in panel["targets"]):
        assert set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"])) <= labels(target["expr"]), target
    variables = {variable["name"]: variable for variable in DASHBOARD["templating"]["list"]}
    used = set(re.findall(r"\$(?!__)\{?(\w+)", json.dumps([panel["targets"] for panel in PANELS])))
    assert used <= set(variables)
    for variable in variables.values():
        if variable["type"] == "query":
            name, label = re.fullmatch(r"label_values\((\w+), (\w+)\)", variable["definition"]).groups()
            assert label in exported()[name]
    for rule in ALERTS:
        grouped = re.findall(r"by \(([^)]*)\)", rule["expr"])
        kept = {label.strip() for group in grouped for label in group.split(",")}
        known = kept if "sum" in rule["expr"] else labels(rule["expr"])
        assert set(re.findall(r"\$labels\.(\w+)", rule["annotations"]["summary"])) <= known - {"le"}
