"""
Draw the tasks of an example DAG as SVG.

The tasks run from left to right; if they do not fit the width of the site, from top to bottom.
"""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import Any

BOX, ROW, COLUMN, STEP, MARGIN = 46, 62, 44, 24, 10
PAGE = 900
# Widths of a character of a task's name and of its operator, in pixels.
NAME, OPERATOR = 9, 6.8
STYLE = """
  svg { background: #fff; font-family: system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
  rect { fill: #eef1fd; stroke: #4361ee; }
  path { stroke: #8a93ad; stroke-width: 1.5; fill: none; }
  .name { fill: #1d2440; font-size: 15px; font-weight: 600; }
  .operator { fill: #5b6480; font-size: 12px; }
  text { text-anchor: middle; }
  @media (prefers-color-scheme: dark) {
    svg { background: #14161c; }
    rect { fill: #1d2546; stroke: #8196f8; }
    .name { fill: #eef1fd; }
    .operator { fill: #b3bcd6; }
  }
"""


def dag_of(path: Path) -> Any:
    """
    Return the DAG of a file.

    :param path: The file; it has one DAG.
    :raises RuntimeError: Airflow cannot read the file.
    """
    from airflow.dag_processing.dagbag import DagBag

    bag = DagBag(path)
    if bag.import_errors:
        raise RuntimeError("\n".join(bag.import_errors.values()))
    (dag,) = bag.dags.values()
    return dag


def drawn(dag: Any) -> str:
    """
    Return the picture of a DAG.

    :param dag: The DAG.
    """
    levels = levels_of(dag)
    widths = [max(map(width_of, tasks)) for tasks in levels]
    width = MARGIN * 2 + sum(widths) + COLUMN * (len(levels) - 1)
    height = MARGIN * 2 + ROW * max(map(len, levels)) - (ROW - BOX)
    places: dict[str, tuple[float, float, float]] = {}
    if is_wide := width > PAGE:
        wide = max(widths)
        width = MARGIN * 2 + wide * max(map(len, levels)) + COLUMN * (max(map(len, levels)) - 1)
        height = MARGIN * 2 + BOX * len(levels) + STEP * (len(levels) - 1)
        for depth, tasks in enumerate(levels):
            for number, task in enumerate(tasks):
                places[task.task_id] = (MARGIN + (wide + COLUMN) * number, MARGIN + (BOX + STEP) * depth, wide)
    else:
        left: float = MARGIN
        for tasks, wide in zip(levels, widths, strict=True):
            top = (height - ROW * len(tasks) + ROW - BOX) / 2
            for number, task in enumerate(tasks):
                places[task.task_id] = (left, top + ROW * number, wide)
            left += wide + COLUMN
    connect = line_down if is_wide else line_right
    lines = [
        connect(places[task.task_id], places[after])
        for task in dag.tasks
        for after in sorted(task.downstream_task_ids)
        if not is_implied(dag, task, after)
    ]
    boxes = [box(task, *places[task.task_id]) for task in dag.tasks]
    label = escape(f"The tasks of {dag.dag_id}: " + ", ".join(task.task_id for task in dag.tasks), quote=True)
    size = f'viewBox="0 0 {width:g} {height:g}" width="{width:g}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label="{label}">'
    return "\n".join([head, f"<style>{STYLE}</style>", *lines, *boxes, "</svg>", ""])


def levels_of(dag: Any) -> list[list[Any]]:
    """Return the tasks by the length of the longest path to them."""
    depths: dict[str, int] = {}
    for task in dag.topological_sort():
        depths[task.task_id] = max((depths[before] + 1 for before in task.upstream_task_ids), default=0)
    return [[task for task in dag.tasks if depths[task.task_id] == depth] for depth in range(max(depths.values()) + 1)]


def is_implied(dag: Any, task: Any, after: str) -> bool:
    """Return whether a longer path leads to the same task, so that the line would only repeat it."""
    others = (dag.get_task(name) for name in task.downstream_task_ids - {after})
    return any(after in other.get_flat_relative_ids(upstream=False) for other in others)


def width_of(task: Any) -> float:
    """Return the width of a task's box."""
    return 24 + max(NAME * len(task.task_id), OPERATOR * len(operator_of(task)))


def operator_of(task: Any) -> str:
    """Return the name of a task's operator, as the DAG's author writes it."""
    return getattr(task, "custom_operator_name", None) or task.task_type


def line_right(start: tuple[float, float, float], end: tuple[float, float, float]) -> str:
    """Return the line from one task to another on its right."""
    x, y, to, down = start[0] + start[2], start[1] + BOX / 2, end[0], end[1] + BOX / 2
    middle = to - COLUMN / 2
    return f'<path d="M{x:g} {y:g} H{middle - COLUMN / 2:g} C{middle:g} {y:g} {middle:g} {down:g} {to:g} {down:g}"/>'


def line_down(start: tuple[float, float, float], end: tuple[float, float, float]) -> str:
    """Return the line from one task to another below it."""
    x, y, to, down = start[0] + start[2] / 2, start[1] + BOX, end[0] + end[2] / 2, end[1]
    return f'<path d="M{x:g} {y:g} L{to:g} {down:g}"/>'


def box(task: Any, left: float, top: float, width: float) -> str:
    """Return the box of a task."""
    middle = left + width / 2
    return (
        f'<rect x="{left:g}" y="{top:g}" width="{width:g}" height="{BOX}" rx="7"/>'
        f'<text class="name" x="{middle:g}" y="{top + 20:g}">{escape(task.task_id)}</text>'
        f'<text class="operator" x="{middle:g}" y="{top + 37:g}">{escape(operator_of(task))}</text>'
    )
