"""What a parser returns: the fields, the text and the notes of a file or a page."""

from __future__ import annotations

import dataclasses
import re
from dataclasses import dataclass

# The value of a field: a text, or the items of a list.
Fields = dict[str, "str | list[str]"]
_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class Note:
    """
    Say what is not in the rows of a source, for one reason.

    :param unit: What is counted: ``word``, ``file``, ``page``, ``sheet`` or ``chunk``, for example.
    :param reason: Why, as a predicate, such as ``is a draft``.
    :param is_expected: Whether the owner of the source wants it left out. Otherwise content could be lost.
    :param count: Number of units.
    :param name: Name of the file, page or row that the note is about. A parser does not know it, and leaves it empty.
    """

    unit: str
    reason: str
    is_expected: bool
    count: int = 1
    name: str = ""


def count_words(text: str) -> int:
    """Return the number of words of a text, which are runs of letters and digits."""
    return sum(1 for _ in _WORD.finditer(text))


def notes_of(text: str, reason: str, *, is_expected: bool) -> list[Note]:
    """Return the count of the words of a text that is left out; nothing if it has none."""
    count = count_words(text)
    return [Note("word", reason, is_expected, count)] if count else []


@dataclass(slots=True)
class Page:
    """
    A file or a page of a website, as Markdown.

    :param fields: What front matter, the head of a page or the properties of a file say, such as ``title``. The names
        are in lower case, without blanks, ``-`` and ``_``.
    :param text: The content, as Markdown.
    :param notes: What the text does not hold.
    """

    fields: Fields = dataclasses.field(default_factory=dict)
    text: str = ""
    notes: list[Note] = dataclasses.field(default_factory=list)

    def field(self, *names: str) -> str | None:
        """Return the first field of these names that has a text; of a list, its first text."""
        for name in names:
            value = self.fields.get(name, "")
            for text in [value] if isinstance(value, str) else value:
                if text.strip():
                    return text.strip()
        return None
