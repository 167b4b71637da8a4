"""
Write the reference of operators and sensors from their classes.

``python -m tests.docs.generated`` writes the page. Names and defaults come from the constructors, meanings from the
docstring of the class that defines the parameter, and results from the docstring of ``execute``.
"""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path

from airflow_provider_assistant.loading.counts import LoadCounts
from airflow_provider_assistant.loading.options import OPTIONS, LoadOptions
from airflow_provider_assistant.provider_info import get_provider_info

PAGE = Path(__file__).parents[1] / "reference" / "operators.md"
PACKAGE = "airflow_provider_assistant."
Parameters = dict[str, tuple[object, str]]
BEGIN, END = "<!-- operators: begin -->\n", "<!-- operators: end -->\n"
HEAD = "| Parameter | Default | Meaning |\n|---|---|---|\n"
# Parameters that no section names, because all tasks that send requests have them.
EVERYWHERE = ("assistant_conn_id", "tenant_id", "site_id")
# Names that are not listed twice.
MANY = 5
# The column of defaults has it already.
DEFAULT = re.compile(r" Default: (?:None|True|False|[\d.]+|`\w+`)\.$")
RESULTS = re.compile(r"^:(return|raises \w+): (.*\n?(?:    .*\n?)*)", re.MULTILINE)


def written(page: str) -> str:
    """
    Return the page with the text between its marks replaced.

    Parameters that several operators share, with one default and one meaning, are in one table at the end. The section
    of an operator only names them. Operators that share ``execute`` share its results.

    :param page: The text of the page.
    """
    kinds = tasks()
    common = common_parameters(list(kinds.values()))
    shown: dict[object, str] = {}
    sections = [section(kind, common, shown) for kind in kinds.values()]
    templated = {name for kind in kinds.values() for name in kind.template_fields}
    sections.append(f"## Common parameters\n\n{table(common, templated)}")
    counts = "".join(f"| `{name}` | {markdown(text)} |\n" for name, text in _in_docstring(LoadCounts).items())
    sections.append(f"## Counts of a load\n\n| Key | Meaning |\n|---|---|\n{counts}")
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return before + BEGIN + "\n" + "\n".join(sections) + "\n" + END + after


def section(kind: type, common: Parameters, shown: dict[object, str]) -> str:
    """
    Return the section of an operator: its description, its parameters, and its result.

    :param kind: The class of the operator.
    :param common: The parameters that several operators share.
    :param shown: The results and parameters of the sections before, with their operators; those of this section are
        added.
    """
    found = parameters(kind)
    shared = [name for name in found if found[name] == common.get(name) and name not in EVERYWHERE]
    own = {name: one for name, one in found.items() if one != common.get(name)}
    earlier: dict[str, list[str]] = {}
    for name, one in list(own.items()):
        first = shown.setdefault((name, one), kind.__name__)
        if first != kind.__name__:
            earlier.setdefault(first, []).append(name)
            del own[name]
    parts = [f"## {kind.__name__}\n\n{description(kind)}\n"]
    if own:
        parts.append(table(own, set(kind.template_fields)))
    for first, names in earlier.items():
        parts.append(f"As in [`{first}`](#{first.lower()}): {in_code(names)}.\n")
    if shared:
        first = shown.setdefault(tuple(shared), kind.__name__)
        same = f"those of [`{first}`](#{first.lower()})"
        names = in_code(shared) if first == kind.__name__ or len(shared) < MANY else same
        parts.append(f"[Common parameters](#common-parameters): {names}.\n")
    text = results(kind)
    first = shown.setdefault(text, kind.__name__)
    same = f"The result and the errors are those of [`{first}`](#{first.lower()}).\n"
    parts.append(text if first == kind.__name__ else same)
    return "\n".join(parts)


def in_code(names: list[str]) -> str:
    """
    Return names as a list.

    :param names: The names.
    """
    return ", ".join(f"`{name}`" for name in names)


def description(kind: type) -> str:
    """
    Return what a docstring says before the parameters, and a link to the guide.

    :param kind: The class of the operator.
    """
    text = inspect.cleandoc(vars(kind)["__doc__"])
    guides = re.findall(r":doc:`/(.+?)`", text)
    text = re.sub(r"\.\. seealso::\n(?:    .*\n)+", "", text)
    text = re.sub(r"^:param .*\n?(?:    .*\n?)*", "", text, flags=re.MULTILINE)
    text = re.sub(r"^The (?:other )?parameters are those of\s+:class:`[^`]+`.*", "", text, flags=re.MULTILINE)
    paragraphs = [" ".join(part.split()) for part in text.split("\n\n") if part.strip()]
    links = ", ".join(f"[{title_of(guide)}](../{guide}.md)" for guide in guides)
    return "\n\n".join([*map(markdown, paragraphs), f"Guide: {links}. Module: `{kind.__module__}`."])


def title_of(guide: str) -> str:
    """
    Return the title of a page.

    :param guide: Its path below the documentation, without suffix.
    """
    return (PAGE.parents[1] / f"{guide}.md").read_text().partition("\n")[0].removeprefix("# ")


def results(kind: type) -> str:
    """
    Return what ``execute`` returns and raises.

    :param kind: The class of the operator.
    """
    found = dict(RESULTS.findall(inspect.cleandoc(kind.execute.__doc__)))
    returned = one_line(found.pop("return")).replace("`LoadCounts`", "[counts of a load](#counts-of-a-load)")
    lines = [f"Returns: {returned}", ""]
    raised = {name.removeprefix("raises "): one_line(text) for name, text in found.items()}
    known = [f"- `{name}`: {text}" for name, text in raised.items() if text != "Any other error."]
    if known:
        lines += ["Raises:", "", *known, ""]
    return "\n".join(lines)


def one_line(text: str) -> str:
    """
    Return the Markdown of a text on one line.

    :param text: ReST.
    """
    return markdown(" ".join(text.split()))


def common_parameters(kinds: list[type]) -> Parameters:
    """
    Return the parameters that at least two of the operators have, with the same default and meaning.

    :param kinds: The classes of the operators.
    """
    found = [item for kind in kinds for item in parameters(kind).items()]
    return {name: one for name, one in found if found.count((name, one)) > 1}


def table(found: Parameters, templated: set[str]) -> str:
    """
    Return a table.

    :param found: The parameters.
    :param templated: Those that Airflow renders, which get a mark.
    """
    rows = []
    for name, (default, meaning) in found.items():
        shown = "required" if default is inspect.Parameter.empty else f"`{default!r}`"
        mark = " †" if name in templated else ""
        text = markdown(DEFAULT.sub("", meaning))
        rows.append(f"| `{name}`{mark} | {shown} | {text} |\n")
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
