"""
Build the site: the pages as they are in the repository, the example DAGs, and the reference from docstrings.

``python docs/site/build_site.py [FOLDER]`` builds it in ``build/docs/html``, or below another folder. The pages are
written for GitHub. This script adds the navigation, and rewrites links whose target has another path on the site, or is
not on the site at all.
"""

from __future__ import annotations

import ast
import os
import re
import shutil
import sys
import tomllib
from pathlib import Path, PurePosixPath

TOOLS = Path(__file__).parent
ROOT = TOOLS.parents[1]
URLS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["urls"]
REPOSITORY, ISSUES = URLS["Source"], URLS["Issues"]
# Or code, in which there are no links.
LINK = re.compile(r"`[^`\n]+`|(?<!\\)\[(?P<text>(?:[^\[\]]|!?\[[^\]]*\](?:\([^)]*\))?)*)\]\((?P<target>[^)\s]+)\)")
FENCED = re.compile(r"(^ *(?P<fence>`{3,})[^\n]*\n.*?^ *(?P=fence)$)", re.MULTILINE | re.DOTALL)

# Pages of the repository that are not in docs, by their place on the site.
OTHERS = {
    name: place
    for name, place in {
        "CONTRIBUTING.md": "contributing.md",
        "CODE_OF_CONDUCT.md": "conduct.md",
        "CHANGELOG.md": "changes.md",
        "SECURITY.md": "security.md",
    }.items()
    if (ROOT / name).exists()
}

# The reference from docstrings, on a page for each of these groups. Operators, transfers and sensors are in
# reference/operators.md.
MODULES = {
    "Hook": ["hooks.assistant"],
    "Options of a load": ["loading.options"],
    "Triggers": ["triggers.chat", "triggers.chat_batch"],
    "Retry policy": ["retry_policy"],
    "Assets": ["assets"],
    "Exceptions": ["exceptions"],
    "Endpoints and replies": ["api.endpoints", "api.payloads", "api.replies"],
    "Evaluation": [
        *("evaluation.golden", "evaluation.scorers", "evaluation.scores", "evaluation.rules"),
        *("evaluation.refusals", "evaluation.run", "evaluation.summary"),
    ],
    "Embedded service": ["sandbox.server"],
}

# The bullets of this page are the order of the sidebar.
WITH_CONTENTS = ("index.md",)


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
    for place in WITH_CONTENTS:
        page = source / place
        page.write_text(page.read_text() + navigation(page.read_text()))
    project = contents([f"Source <{REPOSITORY}>", f"Issues <{ISSUES}>"], "Project")
    with (source / "index.md").open("a") as index:
        index.write(f"\n{project}")


def places_of() -> dict[str, str]:
    """Return the path on the site for each file and folder of the repository."""
    places = {f"docs/{place}": place for place in _below(ROOT / "docs")} | OTHERS
    places |= {f"dags/{dag.name}": f"examples/{dag.stem}.md" for dag in dags()}
    places["dags"] = "examples/index.md"
    places["airflow_provider_assistant"] = "api/index.rst"
    for title, modules in MODULES.items():
        for module in modules:
            places[source_of(module)] = f"api/{slug(title)}.rst"
    return places


def relinked(text: str, original: str, place: str, places: dict[str, str]) -> str:
    """
    Return a page whose links lead to the targets' paths on the site.

    If the site does not have the target, such as a test, the link leads to the repository.

    :param original: Path of the page in the repository.
    :param place: Path of the page on the site.
    """

    def link(found: re.Match[str]) -> str:
        if found["target"] is None:
            return found[0]
        label, target = LINK.sub(link, found["text"]), found["target"]
        if "://" in target or target.startswith(("#", "mailto:")):
            return f"[{label}]({target})"
        path, _, anchor = target.partition("#")
        there = os.path.normpath(PurePosixPath(original).parent / path)
        if there not in places:
            # Sphinx reports links to files that do not exist.
            return f"[{label}]({REPOSITORY}/blob/main/{there})" if (ROOT / there).exists() else found[0]
        here = os.path.relpath(places[there], PurePosixPath(place).parent)
        return f"[{label}]({here}{anchor and '#' + anchor})"

    parts = FENCED.split(text)
    # Each part is followed by the fenced block and by the group that matches its fence.
    return "".join(
        LINK.sub(link, part) if number % 3 == 0 else part for number, part in enumerate(parts) if number % 3 != 2
    )


def navigation(page: str) -> str:
    """Return hidden tables of contents, one for each section of a page, of the pages that its bullets link to."""
    text = ""
    for section in re.split(r"^## ", page, flags=re.MULTILINE):
        listed = re.findall(r"^- \[[^\]]+\]\(([^):]+)\.(?:md|rst)\)", section, re.MULTILINE)
        caption = section.partition("\n")[0].strip("# ")
        if listed:
            text += f"\n{contents(listed, caption)}"
    return text


def contents(pages: list[str], caption: str = "") -> str:
    """Return a hidden table of contents: it puts the pages into the sidebar."""
    head = f":hidden:\n:caption: {caption}" if caption else ":hidden:"
    return f"```{{toctree}}\n{head}\n\n" + "\n".join(pages) + "\n```\n"


def write_examples(folder: Path) -> None:
    """Write a page for each example DAG, and one that describes all of them."""
    folder.mkdir()
    text = (
        "# Example DAGs\n\nComplete DAGs to copy. The package contains them: "
        "[how to use them](../start/first-dag.md#next). In the repository, `make demo` runs them on a real Airflow "
        "against the [embedded service](../reference/sandbox.md).\n"
    )
    for path in dags():
        text += f"\n## [{path.stem}]({path.stem}.md)\n\n{summary_of(path)}\n"
        code = f"```python\n{path.read_text()}```"
        link = f"[{path.name}]({REPOSITORY}/blob/main/dags/{path.name})"
        (folder / f"{path.stem}.md").write_text(f"# {path.stem}\n\n{summary_of(path)} Source: {link}.\n\n{code}\n")
    (folder / "index.md").write_text(f"{text}\n{contents([path.stem for path in dags()])}")


def summary_of(dag: Path) -> str:
    """Return the description of an example: the first sentence of its docstring."""
    return (ast.get_docstring(ast.parse(dag.read_text())) or "").partition("\n\n")[0].replace("\n", " ")


def write_reference(folder: Path) -> None:
    """Write the pages that Sphinx fills from docstrings, with a heading for each class and each function."""
    folder.mkdir()
    listed = "\n".join(f"   {slug(title)}" for title in MODULES)
    title = "Python API\n==========\n\nWhat a DAG may import besides operators and sensors, from the docstrings."
    (folder / "index.rst").write_text(f"{title}\n\n.. toctree::\n   :maxdepth: 1\n\n{listed}\n")
    for title, modules in MODULES.items():
        text = f"{title}\n{'=' * len(title)}\n"
        for module in modules:
            name = f"airflow_provider_assistant.{module}"
            text += f"\n.. automodule:: {name}\n   :no-members:\n"
            for kind, member in public_members(ROOT / source_of(module)):
                text += f"\n{member}\n{'-' * len(member)}\n\n.. auto{kind}:: {name}.{member}\n"
        (folder / f"{slug(title)}.rst").write_text(text)


def public_members(source: Path) -> list[tuple[str, str]]:
    """Return kind and name of the public classes and functions that a module defines."""
    kinds = {ast.ClassDef: "class", ast.FunctionDef: "function", ast.AsyncFunctionDef: "function"}
    nodes = [node for node in ast.parse(source.read_text()).body if isinstance(node, tuple(kinds))]
    return [(kinds[type(node)], node.name) for node in nodes if not node.name.startswith("_")]


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
