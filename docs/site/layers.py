"""
Draw the packages and their layers, as import-linter enforces them.

``python docs/site/layers.py`` writes the picture.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from html import escape
from pathlib import Path

ROOT = Path(__file__).parents[2]
PICTURE = ROOT / "docs" / "images" / "layers.svg"

PURPOSE = {
    "cli": "the command line",
    "decorators": "functions as tasks",
    "ui": "pages in Airflow",
    "transfers": "exports to Parquet, Parquet to the warehouse",
    "operators": "tasks",
    "retry_policy": "when to retry",
    "sensors": "tasks that wait",
    "assets": "URIs of a site",
    "failures": "log lines of a failed task",
    "triggers": "poll in the triggerer",
    "hooks": "connection, one method per endpoint",
    "chat_batch": "many questions in one task",
    "feedback": "which answers to rate",
    "loading": "rows and files to documents",
    "evaluation": "scores, gate, report",
    "lake": "Parquet, warehouse",
    "ledger": "record of effects",
    "client": "sends requests, rate limit",
    "storage": "paths, uploads",
    "keys": "key of a row",
    "parameters": "what a parameter may be",
    "api": "calls, replies, retries; no I/O",
    "observability": "metrics, traces, lineage",
    "exceptions": "the error tree",
    "quantiles": "percentiles",
    "strict_json": "JSON from outside",
    "texts": "safe to show and to store",
}
OUTSIDE = {
    "ui": "Airflow's API server",
    "operators": "Airflow: DAGs, XCom, assets",
    "triggers": "Airflow's triggerer",
    "hooks": "Airflow's connections",
    "lake": "Files, object storage, SQL",
    "client": "The service, over HTTP",
}

ROW, BOX, GAP = 58, 44, 14
LEFT, WIDTH, ASIDE = 10, 520, 210
STYLE = """
  svg { background: #fff; font-family: system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
  .package { fill: #eef1fd; stroke: #4361ee; }
  .outside { fill: none; stroke: #8a93ad; stroke-dasharray: 5 4; }
  .line { stroke: #8a93ad; }
  .name { fill: #1d2440; font-size: 16px; font-weight: 600; }
  .purpose { fill: #5b6480; font-size: 13px; }
  text { text-anchor: middle; }
  @media (prefers-color-scheme: dark) {
    svg { background: #14161c; }
    .package { fill: #1d2546; stroke: #8196f8; }
    .name { fill: #eef1fd; }
    .purpose { fill: #b3bcd6; }
  }
"""


def layers() -> list[list[str]]:
    """Return the packages of each layer, from top to bottom; packages of one layer do not import each other."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    (contract,) = [found for found in settings["tool"]["importlinter"]["contracts"] if found["type"] == "layers"]
    return [[name.strip() for name in layer.split("|")] for layer in contract["layers"]]


def drawn() -> str:
    """Return the picture as SVG."""
    rows = layers()
    height = LEFT * 2 + ROW * (len(rows) + 1) + GAP
    width = LEFT * 2 + WIDTH + GAP * 3 + ASIDE
    shapes = [shape for number, row in enumerate(rows) for shape in _row(row, LEFT + number * ROW)]
    top = LEFT + len(rows) * ROW + GAP
    shapes += _box(LEFT, top, WIDTH, "sandbox", "the embedded service; shares no code with the rest", "package")
    label = "The packages by layer, from top to bottom. Each package imports only from lower layers."
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" aria-label="{label}">',
            f"<style>{STYLE}</style>",
            *shapes,
            "</svg>",
            "",
        ]
    )


def _row(packages: list[str], top: int) -> Iterator[str]:
    width = (WIDTH - GAP * (len(packages) - 1)) / len(packages)
    for number, package in enumerate(packages):
        yield from _box(LEFT + number * (width + GAP), top, width, package, PURPOSE.get(package, ""), "package")
    for package in packages:
        if label := OUTSIDE.get(package):
            start, middle = LEFT + WIDTH, top + BOX / 2
            end = start + GAP * 3
            yield f'<line class="line" x1="{start}" y1="{middle:g}" x2="{end}" y2="{middle:g}"/>'
            yield from _box(end, top, ASIDE, "", label, "outside")


def _box(left: float, top: float, width: float, name: str, purpose: str, kind: str) -> list[str]:
    middle = left + width / 2
    box = f'<rect class="{kind}" x="{left:g}" y="{top:g}" width="{width:g}" height="{BOX}" rx="7"/>'
    texts = [(name, "name"), (purpose, "purpose")]
    texts = [(text, style) for text, style in texts if text]
    baselines = [19, 36] if len(texts) == 2 else [27]
    return [box] + [
        f'<text class="{style}" x="{middle:g}" y="{top + baseline:g}">{escape(text)}</text>'
        for (text, style), baseline in zip(texts, baselines, strict=True)
    ]


if __name__ == "__main__":
    PICTURE.write_text(drawn())
