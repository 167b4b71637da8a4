"""
Files of reStructuredText as Markdown.

docutils converts a file to HTML, and the HTML becomes Markdown. It does not know the roles and directives of Sphinx:
those that a file uses are registered, and keep their text.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from docutils import nodes
from docutils.core import publish_doctree, publish_from_doctree
from docutils.parsers.rst import Directive, directives, roles
from docutils.parsers.rst.languages import en
from docutils.utils import unescape
from docutils.writers.html5_polyglot import Writer

from airflow_provider_assistant.parsing.html import to_markdown
from airflow_provider_assistant.parsing.limits import UnreadableFileError

if TYPE_CHECKING:
    from bs4 import BeautifulSoup

_ROLE = re.compile(r":([a-zA-Z][\w.:+-]*):`")
_DIRECTIVE = re.compile(r"^[ \t]*\.\. (?:\|[^|\n]+\| +)?([a-zA-Z][\w:+.-]*?) ?::", re.MULTILINE)
_TITLE_AND_TARGET = re.compile(r"(.+?)\s*<[^<>]*>", re.DOTALL)
# Lists of files, entries of the index, settings, and what Sphinx does not show.
_NOT_SHOWN = re.compile(
    "codeauthor|contents|currentmodule|default-domain|highlight|include|index|literalinclude|module"
    "|py:currentmodule|py:module|sectionauthor|tabularcolumns|todo|todolist|toctree"
)
_CODE = re.compile("code-block|graphviz|ipython|mermaid|plantuml|productionlist|prompt|sourcecode|testcode")
# Directives whose argument is not shown to readers.
_CONDITIONS = frozenset({"cssclass", "ifconfig", "only", "rst-class"})
_SETTINGS = {
    "_disable_config": True,
    "docinfo_xform": False,
    "doctitle_xform": False,
    "file_insertion_enabled": False,
    "halt_level": 5,
    "initial_header_level": 1,
    "math_output": "LaTeX",
    "output_encoding": "unicode",
    # The message about an invalid directive has its text.
    "report_level": 3,
    "strip_comments": True,
    "syntax_highlight": "none",
    "toc_backlinks": False,
    "warning_stream": False,
}


def parse_rst(content: bytes) -> dict[str, Any]:
    """
    Return title and text of a file, and the fields at its beginning by their name.

    :raises UnreadableFileError: The file is not UTF-8.
    """
    from bs4 import BeautifulSoup

    try:
        source = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UnreadableFileError(f"is not UTF-8 at byte {error.start}") from None
    _register_unknown(source)
    document = publish_doctree(source, settings_overrides=_SETTINGS)
    _show_invalid(document)
    fields = _fields(document)
    html = publish_from_doctree(document, writer=Writer(), settings_overrides=_SETTINGS)
    soup = BeautifulSoup(html, "lxml")
    robots = soup.find("meta", attrs={"name": "robots"})
    if robots is not None:
        fields["robots"] = str(robots.get("content"))
    _clean(soup)
    return {**fields, "text": to_markdown(soup.body)}


def _register_unknown(source: str) -> None:
    for found in set(_ROLE.findall(source)):
        name = found.lower()
        if name not in en.roles:
            roles.register_local_role(name, _role)
    for found in set(_DIRECTIVE.findall(source)):
        name = found.lower()
        if _NOT_SHOWN.fullmatch(name):
            directives.register_directive(name, _NotShown)
        elif _CODE.fullmatch(name):
            directives.register_directive(name, _Code)
        elif name not in en.directives:
            directives.register_directive(name, _Shown)


def _role(
    _name: str, rawtext: str, text: str, *_: Any, **__: Any
) -> tuple[list[nodes.Node], list[nodes.system_message]]:
    """Return the title of a reference, or the text as it is."""
    text = unescape(text)
    titled = _TITLE_AND_TARGET.fullmatch(text)
    if titled:
        text = titled[1]
    elif text.startswith("~"):  # a name of Python, of which Sphinx shows the last part
        text = text.rpartition(".")[2].removeprefix("~")
    return [nodes.inline(rawtext, text.removeprefix("!"))], []


class _AnyOption(dict[str, Any]):
    """Options of any name."""

    def __bool__(self) -> bool:
        return True

    def __missing__(self, name: str) -> Any:
        return directives.unchanged


class _Shown(Directive):  # type: ignore[misc]
    """Shows the text of a directive that is not known."""

    optional_arguments = 1
    final_argument_whitespace = True
    has_content = True
    option_spec = _AnyOption()

    def run(self) -> list[nodes.Node]:
        shown = [self.options.get(name) for name in ("title", "caption", "header")]
        if self.name not in _CONDITIONS:
            shown += self.arguments
        container = nodes.container()
        for text in filter(None, shown):
            children, _ = self.state.inline_text(text, self.lineno)
            container += nodes.paragraph(text, "", *children)
        self.state.nested_parse(self.content, self.content_offset, container)
        return list(container)


class _Code(_Shown):
    """Shows the text of a directive as code."""

    def run(self) -> list[nodes.Node]:
        text = "\n".join(self.content)
        return [nodes.literal_block(text, text)]


class _NotShown(_Shown):
    """Shows nothing."""

    def run(self) -> list[nodes.Node]:
        return []


def _show_invalid(document: nodes.document) -> None:
    """Replace each message about something invalid by its text, which the message quotes."""
    for message in list(document.findall(nodes.system_message)):
        quoted = [child for child in message if isinstance(child, nodes.literal_block)]
        if quoted:
            message.replace_self(quoted)
        else:
            message.parent.remove(message)


def _fields(document: nodes.document) -> dict[str, str]:
    """Remove the list of fields before the text, which may follow the first title, and return them."""
    children = list(document)
    while children:
        child = children.pop(0)
        if isinstance(child, nodes.field_list):
            child.parent.remove(child)
            return {_plain(field[0].astext()): field[1].astext() for field in child}
        if isinstance(child, nodes.section):
            children = list(child)
        elif not isinstance(child, nodes.Invisible | nodes.title):
            break
    return {}


def _plain(name: str) -> str:
    return re.sub(r"[\s_-]", "", name).lower()


def _clean(body: BeautifulSoup) -> None:
    for tag in body.select("script, style, .system-messages"):
        tag.decompose()
    for tag in body.select("span.literal"):
        tag.name = "code"
    # Links within the file, such as those to its footnotes.
    for tag in body.select('a[href^="#"], a:not([href])'):
        tag.unwrap()
