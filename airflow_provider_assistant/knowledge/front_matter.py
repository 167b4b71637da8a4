"""The fields in YAML that a Markdown file may have before its text."""

from __future__ import annotations

import re

from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.storage.paths import StoragePath

# Characters. People write less.
LONGEST_FRONT_MATTER = 20_000
# A file may also begin with a rule, which is a line of --- as well. Front matter begins with a field.
START = re.compile(r"""---[ \t]*\n(?=(?:[ \t]*(?:#.*)?\n)*["']?[\w -]{1,100}["']? *:\s)""")
END = re.compile(r"^(?:---|\.\.\.)[ \t]*$", re.MULTILINE)


def split_front_matter(text: str, path: StoragePath) -> tuple[dict[str, str], str]:
    """
    Return the fields of the front matter, and the text after it.

    :param text: With line breaks of one character.
    :param path: For messages.
    :raises AssistantInputError: The front matter is too long or not valid YAML.
    """
    start = START.match(text)
    if not start:
        return {}, text
    end = END.search(text, start.end(), start.end() + LONGEST_FRONT_MATTER)
    if not end:
        raise AssistantInputError(
            f"file {str(path)!r} has front matter that does not end within {LONGEST_FRONT_MATTER:,} characters",
            todo="End it with a line of ---.",
            field="source",
        )
    try:
        fields = _fields(text[start.end() : end.start()])
    except ValueError as error:
        raise AssistantInputError(
            f"file {str(path)!r} has front matter that is not valid YAML: {error}",
            todo="Correct it, or leave the file out.",
            field="source",
        ) from None
    return fields, text[end.end() :]


def _fields(front_matter: str) -> dict[str, str]:
    """
    Return the fields whose value is a text.

    Only the parser of YAML is used. Values stay text, because a title may look like a number, and nothing is nested,
    because the C loader ends the process if lists are nested too deeply.
    """
    import yaml

    fields: dict[str, str] = {}
    depth = 0
    # The name of the field whose value comes next; None if a name comes next.
    name = None
    try:
        for event in yaml.parse(front_matter, getattr(yaml, "CBaseLoader", yaml.BaseLoader)):
            if isinstance(event, yaml.CollectionStartEvent):
                depth += 1
            elif isinstance(event, yaml.CollectionEndEvent):
                depth -= 1
                name = None
            elif isinstance(event, yaml.NodeEvent) and depth == 1:
                # The other event here is an alias, which has no text.
                text = event.value if isinstance(event, yaml.ScalarEvent) else ""
                if name is None:
                    name = text
                else:
                    fields[name] = text
                    name = None
    except yaml.YAMLError as error:
        raise ValueError(getattr(error, "problem", error)) from None
    return fields
