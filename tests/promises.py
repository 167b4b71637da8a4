"""List the promises of the package, each with the test that holds it: ``python -m tests.promises``.

A test states its promise in a marker: ``@pytest.mark.promise("loads", "An unchanged source sends nothing.")``.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

TESTS = Path(__file__).parent
PAGE = TESTS / "README.md"
AREAS = (
    "loads",
    "documents of a site",
    "ledger",
    "replies and errors",
    "chat",
    "ratings",
    "evaluation",
    "sources of documents",
    "lake and warehouse",
    "erasure",
    "Airflow",
    "command line",
    "pages",
    "security",
    "double",
)
INTRODUCTION = """\
# What the package promises, and the tests that hold it

`make test` runs what a contributor needs, `make system` what needs a real Airflow, PostgreSQL or a browser, and
`make nightly` the rest. One line below is one promise to the users of the package. The list is generated from the
markers of the tests: `python -m tests.promises` writes it.
"""


@dataclass(frozen=True)
class Promise:
    """A promise and the test that holds it."""

    area: str
    sentence: str
    test: str


def promises() -> list[Promise]:
    """Return all promises, in the order of files and lines."""
    found = []
    for path in sorted(TESTS.rglob("test_*.py")):
        name = path.relative_to(TESTS).as_posix()
        for function, call in _markers(ast.parse(path.read_text())):
            area, sentence = (ast.literal_eval(argument) for argument in call.args)
            found.append(Promise(area, sentence, f"{name}::{function}"))
    return found


def _markers(tree: ast.Module) -> Iterator[tuple[str, ast.Call]]:
    """Yield each marker of a promise with the name of its test, or of its class of tests."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        for decorator in node.decorator_list:
            if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == "pytest.mark.promise":
                yield node.name, decorator


def page() -> str:
    """Return the list as Markdown."""
    by_area: dict[str, list[Promise]] = defaultdict(list)
    for promise in promises():
        by_area[promise.area].append(promise)
    parts = [INTRODUCTION]
    for area in AREAS:
        if area in by_area:
            lines = [f"- {one.sentence} `{one.test}`" for one in by_area[area]]
            parts.append(f"## {area[0].upper()}{area[1:]}\n\n" + "\n".join(lines) + "\n")
    return "\n".join(parts)


if __name__ == "__main__":
    PAGE.write_text(page())
