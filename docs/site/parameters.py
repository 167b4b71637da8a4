"""
Write the tables of parameters on the reference pages of operators and sensor.

``python -m tests.docs.generated`` assembles each table from the classes: names and defaults from the constructors,
meanings from the docstring of the class that defines the parameter.
"""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path

from airflow_provider_assistant.loading.options import OPTIONS, LoadOptions
from airflow_provider_assistant.provider_info import get_provider_info

PAGES = Path(__file__).parents[1] / "reference" / "operators"
PACKAGE = "airflow_provider_assistant."
Parameters = dict[str, tuple[object, str]]
COMMON = "Common parameters"
BEGIN, END = "<!-- parameters: begin -->\n", "<!-- parameters: end -->\n"
HEAD = "| Parameter | Default | Meaning |\n|---|---|---|\n"


def written(page: str) -> str:
    """
    Return a page with the text between its marks replaced.

    Below the name of an operator comes the table of its parameters, without those that another operator of the page has
    as well: they are named only, and are in the table below "Common parameters".

    :param page: The text of the page.
    """
    parts = re.split(r"^## (.+)$", page, flags=re.MULTILINE)
    kinds = {title: kind for title, kind in tasks().items() if title in parts[1::2]}
    common = common_parameters(list(kinds.values()))
    for position in range(1, len(parts), 2):
        title, text = parts[position : position + 2]
        if title == COMMON:
            text = replaced(text, f"\n{table(common)}\n")
        elif title in kinds:
            text = replaced(text, own_table(kinds[title], common))
        parts[position : position + 2] = [f"## {title}", text]
    return "".join(parts)


def replaced(text: str, generated: str) -> str:
    """
    Return a section with the text between the marks replaced.

    :param text: The section.
    :param generated: The new text.
    """
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return before + BEGIN + generated + END + after


def own_table(kind: type, common: Parameters) -> str:
    """
    Return the table of the parameters that are not common, and a line with the names of those that are.

    :param kind: The class of the operator.
    :param common: The common parameters of its page.
    """
    found = parameters(kind)
    shared = [name for name in found if found[name] == common.get(name)]
    own = {name: one for name, one in found.items() if name not in shared}
    texts = [table(own)] if own else []
    if shared:
        names = ", ".join(f"`{name}`" for name in shared)
        texts.append(f"[Common parameters](#common-parameters): {names}.\n")
    return "\n" + "\n".join(texts) + "\n"


def common_parameters(kinds: list[type]) -> Parameters:
    """
    Return the parameters that at least two of the operators have, with the same default and meaning.

    :param kinds: The classes of the operators of a page.
    """
    found = [item for kind in kinds for item in parameters(kind).items()]
    return {name: one for name, one in found if found.count((name, one)) > 1}


def table(found: Parameters) -> str:
    """
    Return a table.

    :param found: The parameters.
    """
    rows = []
    for name, (default, meaning) in found.items():
        shown = "required" if default is inspect.Parameter.empty else f"`{default!r}`"
        rows.append(f"| `{name}` | {shown} | {markdown(meaning)} |\n")
    return HEAD + "".join(rows)


def parameters(kind: type) -> Parameters:
    """
    Return default and meaning of each parameter, those of the class before those of its bases.

    :param kind: The class.
    :raises KeyError: A parameter is not documented in the class that defines it.
    """
    found: Parameters = {}
    for base in kind.__mro__:
        if base.__module__.startswith(PACKAGE) and "__init__" in vars(base):
            meanings = documented(base)
            for name, default in own_parameters(base).items():
                found.setdefault(name, (default, meanings[name]))
    return found


def own_parameters(kind: type) -> dict[str, object]:
    """
    Return the parameters that a class defines itself, with their defaults.

    :param kind: The class.
    """
    given = inspect.signature(vars(kind)["__init__"]).parameters.values()
    return {one.name: one.default for one in given if one.name not in {"self", "kwargs"}}


def documented(kind: type) -> dict[str, str]:
    """
    Return the meanings in the docstring of a class, by parameter. The options of a load are documented once, as such.

    :param kind: The class.
    """
    found = _in_docstring(kind)
    if set(OPTIONS) <= set(own_parameters(kind)):
        found |= {name: text for name, text in _in_docstring(LoadOptions).items() if name in OPTIONS}
    return found


def _in_docstring(kind: type) -> dict[str, str]:
    text = inspect.cleandoc(vars(kind)["__doc__"] or "")
    found = re.findall(r"^:param (\w+): (.*\n?(?:    .*\n?)*)", text, flags=re.MULTILINE)
    return {name: " ".join(meaning.split()) for name, meaning in found}


def markdown(text: str) -> str:
    """
    Return the Markdown of a meaning.

    :param text: ReST.
    """
    text = re.sub(r":\w+:`~?(?:[\w.]+\.)?(\w+)`", r"`\1`", text)
    return text.replace("``", "`").replace("|", "\\|")


def tasks() -> dict[str, type]:
    """Return the operators, transfers and sensors that the provider declares, by name."""
    info = get_provider_info()
    modules = [name for kind in ("operators", "sensors") for group in info[kind] for name in group["python-modules"]]
    modules += [group["python-module"] for group in info["transfers"]]
    found = {
        name: value
        for module in map(importlib.import_module, modules)
        for name, value in vars(module).items()
        if isinstance(value, type) and value.__module__ == module.__name__ and not name.startswith("_")
    }
    bases = {base for kind in found.values() for base in kind.__mro__[1:]}
    return {name: kind for name, kind in found.items() if kind not in bases}
