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
PICTURE = ROOT / "docs" / "images" / "rooms.svg"

PURPOSE = {
    "cli": "the command line",
    "decorators": "functions as tasks",
    "ui": "pages in Airflow",
    "operators": "tasks",
    "retry_policy": "when to retry",
    "sensors": "tasks that wait",
    "assets": "URIs of a site",
    "waiting": "defer, record_and_return",
    "triggers": "poll, and nothing else",
    "hooks": "a connection, a line per endpoint",
    "asking": "many questions",
    "loading": "rows and files to documents, pace",
    "evaluation": "answers to a verdict",
    "lake": "Parquet, warehouse",
    "ledger": "what was done",
    "client": "sends: httpx, aiohttp",
    "lineage": "read and written",
    "messages": "what errors mean",
    "failures": "what a failed task logs",
    "metrics": "names",
    "tracing": "spans",
    "api": "calls, replies, retries; sends nothing itself",
    "bounds": "size and time of an answer",
    "exceptions": "the error tree",
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
LEFT, WIDTH, ASIDE = 10, 520, 190
STYLE = """
  svg { background: #fff; font-family: system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
  .room { fill: #eef1fd; stroke: #4361ee; }
  .outside { fill: none; stroke: #8a93ad; stroke-dasharray: 5 4; }
  .line { stroke: #8a93ad; }
  .name { fill: #1d2440; font-size: 16px; font-weight: 600; }
  .purpose { fill: #5b6480; font-size: 13px; }
  text { text-anchor: middle; }
  @media (prefers-color-scheme: dark) {
    svg { background: #14161c; }
    .room { fill: #1d2546; stroke: #8196f8; }
    .name { fill: #eef1fd; }
    .purpose { fill: #b3bcd6; }
  }
"""


def layers() -> list[list[str]]:
    """Return the packages of each layer, from top to bottom; packages of one layer do not import each other."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    (contract,) = [found for found in settings["tool"]["importlinter"]["contracts"] if found["type"] == "layers"]
    return [[room.strip() for room in layer.split("|")] for layer in contract["layers"]]


def drawn() -> str:
    """Return the picture as SVG."""
    rows = layers()
    height = LEFT * 2 + ROW * (len(rows) + 1) + GAP
    width = LEFT * 2 + WIDTH + GAP * 3 + ASIDE
    shapes = [shape for number, row in enumerate(rows) for shape in _row(row, LEFT + number * ROW)]
    top = LEFT + len(rows) * ROW + GAP
    shapes += _box(LEFT, top, WIDTH, "sandbox", "the embedded service; knows nobody, known by nobody", "room")
    what = "Rooms of the package from top to bottom; each imports from rooms below it only."
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" aria-label="{what}">',
            f"<style>{STYLE}</style>",
            *shapes,
            "</svg>",
            "",
        ]
    )


def _row(rooms: list[str], top: int) -> Iterator[str]:
    width = (WIDTH - GAP * (len(rooms) - 1)) / len(rooms)
    for number, room in enumerate(rooms):
        yield from _box(LEFT + number * (width + GAP), top, width, room, PURPOSE.get(room, ""), "room")
    for room in rooms:
        if said := OUTSIDE.get(room):
            start, middle = LEFT + WIDTH, top + BOX / 2
            end = start + GAP * 3
            yield f'<line class="line" x1="{start}" y1="{middle:g}" x2="{end}" y2="{middle:g}"/>'
            yield from _box(end, top, ASIDE, "", said, "outside")


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
