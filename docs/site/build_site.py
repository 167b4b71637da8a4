"""
Build the site: the pages as they are in the repository, the example DAGs, and the reference from docstrings.

``python docs/site/build_site.py [FOLDER]`` builds it in ``build/docs/html``, or below another folder. The pages are
written for GitHub. This script adds the navigation, and rewrites links whose target has another path on the site.
"""

from __future__ import annotations

import ast
import os
import re
import shutil
import sys
from pathlib import Path, PurePosixPath

TOOLS = Path(__file__).parent
ROOT = TOOLS.parents[1]
# Or code, in which there are no links.
LINK = re.compile(r"`[^`\n]+`|(?<!\\)\[(?P<text>(?:[^\[\]]|!?\[[^\]]*\](?:\([^)]*\))?)*)\]\((?P<target>[^)\s]+)\)")
FENCED = re.compile(r"(^ *(?P<fence>`{3,})[^\n]*\n.*?^ *(?P=fence)$)", re.MULTILINE | re.DOTALL)

# Pages of the repository that are not in docs, by their place on the site.
OTHERS = {
    name: place
    for name, place in {
        "README.md": "readme.md",
        "CONTRIBUTING.md": "contributing.md",
        "CODE_OF_CONDUCT.md": "conduct.md",
        "CHANGELOG.md": "changes.md",
        "SECURITY.md": "security.md",
    }.items()
    if (ROOT / name).exists()
}

# In this order; further pages of a folder follow by name, so that none is left out.
NAVIGATION: dict[str, list[str]] = {
    "Tutorials": ["tutorials/knowledge-base", "tutorials/nightly-warehouse", "tutorials/evaluation", "examples/index"],
    "How to": [
        *("howto/load-dataframe", "howto/load-files-of-rows", "howto/incremental-loads", "howto/upload-files"),
        *("howto/chat", "howto/async-chat", "howto/chat-batch", "howto/nightly-export", "howto/warehouse"),
        *("howto/golden-set", "howto/evaluate", "howto/read-evaluation-report", "howto/feedback", "howto/hook"),
        *("howto/command-line", "howto/test-dags"),
    ],
    "Concepts": [
        *("concepts/ledger", "concepts/ambiguity", "concepts/timeouts", "concepts/rate-limiting", "faults"),
        *("concepts/evaluation", "benchmarks"),
    ],
    "Operations": ["operations/runbook", "operations/ledger-on-postgresql", "operations/scale"],
    "Reference": [
        *("connection", "reference/configuration", "reference/operators", "reference/command-line"),
        *("reference/errors", "reference/datasets", "reference/evaluation", "reference/metrics", "sandbox"),
        *("compatibility", "api/index"),
    ],
    "Project": ["architecture", "readme", "contributing", "conduct", "security", "changes"],
}
FOLDERS = {"howto": "How to", "concepts": "Concepts", "operations": "Operations", "reference": "Reference"}

# Everything that is for users of the package; the pages of the reference from docstrings.
MODULES = {
    "Hooks": ["hooks.assistant", "hooks.connection", "hooks.shared"],
    "Operators: documents": ["operators.documents", "operators.loads"],
    "Operators: chat": ["operators.chat", "operators.ask"],
    "Operators: feedback": ["operators.feedback"],
    "Operators: evaluation": ["operators.evaluation"],
    "Operators: export": ["operators.statistics", "operators.operations", "operators.warehouse"],
    "Operators: base": ["operators.base"],
    "Sensors": ["sensors.chat"],
    "Triggers": ["triggers.chat", "triggers.batch"],
    "Retry policy": ["retry_policy"],
    "Exceptions": ["exceptions"],
    "Loading": ["loading.source", "loading.report"],
    "Evaluation": [
        *("evaluation.cases", "evaluation.scorers", "evaluation.scoring", "evaluation.rules", "evaluation.figures"),
        *("evaluation.comparison", "evaluation.gate", "evaluation.evaluate", "evaluation.summary"),
        *("evaluation.history", "evaluation.ratings", "evaluation.report"),
    ],
    "Lake": ["lake", "lake.warehouse"],
    "Ledger": ["ledger"],
    "Calls and replies": ["api.endpoints", "api.payloads", "api.replies", "api.call", "api.verdict", "api.flow"],
    "Client": ["client"],
    "Embedded service": ["sandbox.server"],
}


def main(folder: Path) -> int:
    """
    Collect the pages and run Sphinx on them. A warning is an error.

    :param folder: The working folder; the site is built in its folder ``html``.
    """
    # Importing Airflow writes its configuration, and reads this.
    os.environ["AIRFLOW_HOME"] = str(folder / "airflow")
    os.environ["AIRFLOW__LOGGING__LOGGING_LEVEL"] = "WARNING"
    from sphinx.cmd.build import main as sphinx

    source, site = folder / "source", folder / "html"
    assemble(source)
    shutil.rmtree(site, ignore_errors=True)
    status = sphinx(
        ["-q", "-E", "-W", "--keep-going", "-c", str(TOOLS), "-d", str(folder / "doctrees"), str(source), str(site)]
    )
    if status == 0:
        print(f"The site is {os.path.relpath(site / 'index.html')}.")
    return status


def assemble(source: Path) -> None:
    """Write everything that Sphinx reads to a folder."""
    shutil.rmtree(source, ignore_errors=True)
    shutil.copytree(ROOT / "docs", source, ignore=shutil.ignore_patterns("site"))
    for original, place in OTHERS.items():
        shutil.copy(ROOT / original, source / place)
    write_examples(source / "examples")
    write_reference(source / "api")
    places = places_of()
    for original, place in places.items():
        if original.endswith(".md"):
            page = source / place
            page.write_text(relinked(page.read_text(), original, place, places))
    index = source / "index.md"
    index.write_text(index.read_text() + navigation(source))


def places_of() -> dict[str, str]:
    """Return the path on the site for each file and folder of the repository."""
    places = {f"docs/{place}": place for place in _below(ROOT / "docs")} | OTHERS
    places |= {f"dags/{dag.name}": f"examples/{dag.stem}.md" for dag in dags()}
    places["dags"] = "examples/index.md"
    for title, modules in MODULES.items():
        for module in modules:
            places[source_of(module)] = f"api/{slug(title)}.rst"
    return places


def relinked(text: str, original: str, place: str, places: dict[str, str]) -> str:
    """
    Return a page whose links lead to the targets' paths on the site.

    If the site does not have the target, such as a test, the link is replaced by its text.

    :param original: Path of the page in the repository.
    :param place: Path of the page on the site.
    """

    def link(found: re.Match[str]) -> str:
        if found["target"] is None:
            return found[0]
        said, target = LINK.sub(link, found["text"]), found["target"]
        if "://" in target or target.startswith(("#", "mailto:")):
            return f"[{said}]({target})"
        path, _, anchor = target.partition("#")
        there = os.path.normpath(PurePosixPath(original).parent / path)
        if there not in places:
            # Sphinx says what leads nowhere at all.
            return said if (ROOT / there).exists() else found[0]
        here = os.path.relpath(places[there], PurePosixPath(place).parent)
        return f"[{said}]({here}{anchor and '#' + anchor})"

    parts = FENCED.split(text)
    # Each part is followed by what is fenced and, as a group of its own, its fence.
    return "".join(
        LINK.sub(link, part) if number % 3 == 0 else part for number, part in enumerate(parts) if number % 3 != 2
    )


def navigation(source: Path) -> str:
    """Return the tables of contents, one for each section, which Sphinx hides."""
    pages = {place.removesuffix(".md") for place in _below(source) if place.endswith(".md")}
    named = {page for section in NAVIGATION.values() for page in section}
    text = ""
    for section, known in NAVIGATION.items():
        new = sorted(page for page in pages - named if FOLDERS.get(page.partition("/")[0]) == section)
        there = [page for page in (*known, *new) if page in pages or page == "api/index"]
        text += f"\n```{{toctree}}\n:hidden:\n:caption: {section}\n\n" + "\n".join(there) + "\n```\n"
    return text


def write_examples(folder: Path) -> None:
    """Write a page for each example DAG, and one that lists them."""
    folder.mkdir()
    listed = "\n".join(dag.stem for dag in dags())
    described = "\n".join(f"- [`{dag.stem}`]({dag.stem}.md): {summary_of(dag)}" for dag in dags())
    intro = (
        "The package contains them: [how to use them](../index.md#three-jobs). In the repository, `make demo` runs "
        "them on a real Airflow against the [embedded service](../sandbox.md)."
    )
    toc = f"```{{toctree}}\n:hidden:\n\n{listed}\n```"
    (folder / "index.md").write_text(f"# Example DAGs\n\n{intro}\n\n{described}\n\n{toc}\n")
    for dag in dags():
        (folder / f"{dag.stem}.md").write_text(f"# {dag.stem}\n\n```python\n{dag.read_text()}```\n")


def summary_of(dag: Path) -> str:
    """Return the description of an example: the first sentence of its docstring."""
    return (ast.get_docstring(ast.parse(dag.read_text())) or "").partition("\n\n")[0].replace("\n", " ")


def write_reference(folder: Path) -> None:
    """Write the pages that Sphinx fills from docstrings."""
    folder.mkdir()
    listed = "\n".join(f"   {slug(title)}" for title in MODULES)
    title = "Python API\n==========\n\nFrom the docstrings."
    (folder / "index.rst").write_text(f"{title}\n\n.. toctree::\n   :maxdepth: 1\n\n{listed}\n")
    for title, modules in MODULES.items():
        text = f"{title}\n{'=' * len(title)}\n"
        for module in modules:
            name = f"airflow_provider_assistant.{module}"
            if len(modules) > 1:
                text += f"\n{name}\n{'-' * len(name)}\n"
            text += f"\n.. automodule:: {name}\n"
        (folder / f"{slug(title)}.rst").write_text(text)


def _below(folder: Path) -> list[str]:
    """Return the paths of all files below a folder, except the tools in ``docs/site``."""
    found = (path for path in folder.rglob("*") if path.is_file() and TOOLS not in path.parents)
    return sorted(path.relative_to(folder).as_posix() for path in found)


def dags() -> list[Path]:
    """Return the example DAGs."""
    return sorted((ROOT / "dags").glob("*.py"))


def source_of(module: str) -> str:
    """Return the file of a module, in the repository."""
    path = PurePosixPath("airflow_provider_assistant", *module.split("."))
    return f"{path}.py" if (ROOT / f"{path}.py").exists() else f"{path}/__init__.py"


def slug(title: str) -> str:
    """Return a title as the name of a file."""
    return re.sub(r"\W+", "-", title.lower())


if __name__ == "__main__":
    sys.exit(main(Path(*sys.argv[1:]).resolve() if sys.argv[1:] else ROOT / "build" / "docs"))
