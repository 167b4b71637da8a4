"""
The fields that a text file has before its text, in YAML or TOML.

:data:`HIDDEN` says which values of which fields mean that a page is not for readers. The same table holds for the head
of an HTML page and for the articles of a help desk.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from airflow_provider_assistant.knowledge.markdown import without_comments
from airflow_provider_assistant.knowledge.mdx import TITLES, is_shown, names
from airflow_provider_assistant.knowledge.rows import is_missing, text_of
from airflow_provider_assistant.parsing.pages import Fields, Note, count_words, notes_of

_YES = frozenset({"true", "yes", "on", "1", "y"})
_NO = frozenset({"false", "no", "off", "0", "n"})
_NOTHING = frozenset({"", "null", "none", "~"})
_ROBOTS = frozenset({"noindex", "none"})
# Rules for robots that have a value, which may be "none", too.
_ROBOTS_VALUE = re.compile(r"\b(?:max-[\w-]{1,40}|unavailable_after)\s{0,9}:[^,;]*")
_STATES = names("archived deleted draft hidden internal pending private trash trashed unlisted unpublished")
# Values that keep a page from being loaded, by the name of the field in lower case, without blanks, - and _.
HIDDEN: Mapping[str, frozenset[str]] = {
    **dict.fromkeys(names("archived deleted draft hidden internal noindex private seo.noindex trashed unlisted"), _YES),
    **dict.fromkeys(names("isarchived isdeleted isdraft ishidden isinternal isprivate"), _YES),
    **dict.fromkeys(names("ispublic ispublished public publish published robots.index seo.index"), _NO),
    **dict.fromkeys(names("publicationstatus state status visibility"), _STATES),
    **dict.fromkeys(names("firstpublishedat publishedat"), _NOTHING),
    **dict.fromkeys(names("googlebot robots seo.robots"), _ROBOTS),
}
# Times from which on a page is not for readers; whatever else the first ones say means that it is removed already.
_REMOVALS = ("archivedat", "deletedat")
_ENDS = ("expirationdate", "expires", "expirydate", "unpublishdate")
# Times before which a page is not for readers.
_BEGINNINGS = ("pubdate", "publishat", "publishdate", "published", "publishedat", "publishon")

# The title of a page is the first of these fields.
TITLE = ("title", "question", "name")
# Fields that are a part of the text.
_CONTENT = frozenset(("question", "answer", "q", "a"))
# Fields that only say something about the page.
_BESIDE_TEXT = names("author authors categories category date keywords tags title")
_ABOUT = _BESIDE_TEXT | {"description", "excerpt", "summary"}
# What else begins like front matter has none of these fields.
_KNOWN = frozenset((*HIDDEN, *_REMOVALS, *_ENDS, *_BEGINNINGS, *_ABOUT, *TITLES, "layout", "slug"))
# Fewer words are no text that stands for a page, and more words may be its content.
_SENTENCE, _LONG_TEXT = 4, 20

# Characters, and values in all lists and mappings. People write less.
LONGEST_FRONT_MATTER = 20_000
MOST_VALUES = 10_000
# Blank lines and comments may be above it.
_ABOVE = re.compile(r"(?:\s|<!--(?>.*?-->))*+", re.DOTALL)
# A file may also begin with a rule, which is a line of --- as well. Front matter begins with a field, or is empty.
_FIELD = r"""[\w. -]{1,100}:\s|"[^"\n]{1,100}" *:|'[^'\n]{1,100}' *:|\{[\s\w"']"""
_YAML = re.compile(
    rf"---(?:ya?ml)?[ \t]*\n(?:(?=(?:[ \t]*(?:#.*|{{%.*)?\n)*(?:{_FIELD}))|(?=(?:[ \t]*(?:#.*)?\n)*---[ \t]*$))",
    re.MULTILINE,
)
_YAML_END = re.compile(r"^(?:---|\.\.\.)[ \t]*$", re.MULTILINE)
_TOML = re.compile(r"\+\+\+[ \t]*\n")
_TOML_END = re.compile(r"^\+\+\+[ \t]*$", re.MULTILINE)
# Front matter of JSON, as of Hugo, and in other languages.
_OTHER = re.compile(r"(---[a-z]+(?=[ \t]*\n)|;;;(?=.*\n)|\{(?=\s*\"[^\"\n]{1,100}\"\s*:))")
# Tags of templates, such as those of Liquid and Jinja.
_TAG = re.compile(r"\{\{.*?\}\}|\{%.*?%\}", re.DOTALL)
_ONLY_TAGS = re.compile(rf"\s*(?:(?>{_TAG.pattern})\s*)+", re.DOTALL)
# What stands before the value in a line: marks of items, and the name of a field.
_BEFORE_VALUE = re.compile(r"[ \t]*(?:- +)*(?:[\w. -]{1,100}:[ \t]+)?")
_SEPARATORS = re.compile(r"[\s_-]")
_DAY = re.compile(r"(\d{4})[-/](\d\d?)[-/](\d\d?)(?:[T ]\s*(.+))?", re.IGNORECASE)


def split_front_matter(text: str) -> tuple[Fields, str, list[Note]]:
    """
    Return the fields of the front matter, the text after it, and the count of the words that are in neither.

    Questions with answers among the fields become sections of the text. If there is no other text, all that readers see
    of the fields does.

    :param text: With line breaks of one character.
    :return: The fields by their name in lower case without blanks, ``-`` and ``_``. The name of a field in a mapping
        follows that of the mapping and a dot.
    :raises ValueError: The front matter is too long or not valid. The message continues "file 'x' …".
    """
    text = text.removeprefix("\ufeff")
    above = _ABOVE.match(text)
    start = above.end() if above else 0
    for opening, closing, parse in ((_YAML, _YAML_END, _yaml), (_TOML, _TOML_END, _toml)):
        first_line = opening.match(text, start)
        if not first_line:
            continue
        last_line = closing.search(text, first_line.end(), first_line.end() + LONGEST_FRONT_MATTER)
        if not last_line:
            raise ValueError(f"has front matter that does not end within {LONGEST_FRONT_MATTER:,} characters")
        value = parse(text[first_line.end() : last_line.start()])
        fields = fields_of(value)
        # Below other lines, a rule with a colon in the next line is more likely.
        if (start == 0 and not isinstance(value, str)) or not _KNOWN.isdisjoint(fields):
            return _page(value, fields, text[last_line.end() :])
    if other := _OTHER.match(text, start):
        raise ValueError(f"has front matter that begins with {other[1]!r}; write it in YAML between lines of '---'")
    return {}, text, []


def _yaml(text: str) -> Any:
    import yaml

    # Tags of templates are not always YAML.
    for candidate in (text, _with_quoted_tags(text)):
        try:
            # With this loader, a title that looks like a number stays text.
            return yaml.load(candidate, yaml.BaseLoader)  # noqa: S506 (it builds texts, lists and mappings only)
        except (yaml.YAMLError, RecursionError) as error:
            problem = getattr(error, "problem", error)
    raise ValueError(f"has front matter that is not valid YAML: {problem}")


def _with_quoted_tags(text: str) -> str:
    """Return YAML in which values with tags of templates are quoted, and lines that are nothing else are comments."""
    lines = []
    for line in _TAG.sub(lambda tag: " ".join(tag[0].split()), text).split("\n"):
        found = _BEFORE_VALUE.match(line)
        before = found[0] if found else ""
        value = line.removeprefix(before)
        if not before.strip() and _ONLY_TAGS.fullmatch(line):
            # YAML takes this for a comment, but not within a text of several lines, where the tag stays.
            lines.append(f"{before}# {value}")
        elif before.strip() and _TAG.search(value) and not value.startswith(("'", '"', "|", ">")):
            lines.append(before + json.dumps(value, ensure_ascii=False))
        else:
            lines.append(line)
    return "\n".join(lines)


def _toml(text: str) -> Any:
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"has front matter that is not valid TOML: {error}") from None


def fields_of(value: Any) -> Fields:
    """
    Return the texts in a mapping, such as front matter or an article of a help desk, by the path of their names.

    :return: See :func:`split_front_matter`. The texts in a list are a list.
    :raises ValueError: There are too many values.
    """
    fields: Fields = {}
    for number, (path, text, is_item) in enumerate(_values_in(value)):
        if number == MOST_VALUES:
            raise ValueError(f"has front matter with more than {MOST_VALUES:,} values")
        if text is None or not path:
            continue
        if not is_item:
            fields[path] = text
        elif isinstance(items := fields.setdefault(path, []), list):
            items.append(text)
    return fields


def _plain(name: Any) -> str:
    return _SEPARATORS.sub("", str(name)).lower()


def _values_in(value: Any, path: str = "", *, is_item: bool = False) -> Iterator[tuple[str, str | None, bool]]:
    """Yield each value: the path of its names, its text, and whether it is in a list. A collection has no text."""
    if isinstance(value, Mapping):
        yield path, None, is_item
        if value.get("name") == "robots":
            # The arguments of a tag in the head of the page.
            yield "robots", str(value.get("content")), False
        for name, inner in value.items():
            yield from _values_in(inner, f"{path}.{_plain(name)}".strip("."), is_item=is_item)
    elif isinstance(value, list | tuple):
        yield path, None, is_item
        for inner in value:
            yield from _values_in(inner, path, is_item=True)
    else:
        yield path, _text_of(value), is_item


def _text_of(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return "null" if is_missing(value) else text_of(value) or ""


def _page(value: Any, fields: Fields, text: str) -> tuple[Fields, str, list[Note]]:
    """Add what is text in front matter to the text below it, and count the rest."""
    notes = [*_without_tags(fields), *_notes_of_dates(fields)]
    title = next(filter(fields.get, TITLE), "")
    passages = []
    for path, passage, _ in _values_in(value):
        name = path.rpartition(".")[2]
        if (
            passage
            and not _ONLY_TAGS.fullmatch(passage)
            and path != title
            and (name in _CONTENT or is_shown(name, passage))
        ):
            passages.append((path, name, passage))
    is_alone = count_words(without_comments(text)[0]) == 0
    is_page = is_alone and any(
        name not in _BESIDE_TEXT and _count(passage) >= _SENTENCE for _, name, passage in passages
    )
    above, below = [], []
    for path, name, passage in passages:
        shown = f"## {' '.join(passage.split())}" if name in TITLES else passage
        if path == "question":
            above.append(shown)
        elif name in _CONTENT or (is_page and name not in _BESIDE_TEXT):
            below.append(shown)
        else:
            is_expected = name in _ABOUT or _count(passage) < _LONG_TEXT
            notes += notes_of(passage, "in front matter", is_expected=is_expected)
    if above or below:
        text = "\n\n".join((*above, text.strip("\n"), *below))
    return fields, text, notes


def _without_tags(fields: Fields) -> Iterator[Note]:
    """Remove the texts that are only tags of templates, whose values nobody knows, and yield a note for each field."""
    for name, value in list(fields.items()):
        texts = [value] if isinstance(value, str) else value
        known = [text for text in texts if not _ONLY_TAGS.fullmatch(text)]
        if len(known) == len(texts):
            continue
        yield Note("field", f"is only a tag of a template ({name})", is_expected=False)
        if known:
            fields[name] = known
        else:
            del fields[name]


def _count(text: str) -> int:
    """Return the number of words of a text; of one without spaces between words, that of its characters by four."""
    return count_words(text) if text.isascii() else max(count_words(text), len(text) // 4)


def unpublished(fields: Fields, now: datetime) -> str:
    """
    Return why a page or an article is not for readers, as a predicate; empty if it is.

    :param fields: As :func:`fields_of` or the head of an HTML page give them.
    :param now: With a time zone.
    """
    for name in fields:
        for text in _values(fields, name):
            reason = _reason_hidden(name, text, now)
            if reason:
                return reason
    return ""


def _reason_hidden(name: str, text: str, now: datetime) -> str:
    hidden = HIDDEN.get(name, frozenset())
    # Robots are told several things at once.
    found = hidden.intersection(re.split(r"[\s,;:]+", _ROBOTS_VALUE.sub("", text)) if hidden is _ROBOTS else [text])
    if found:
        return f"has {name}: {' '.join(found)}".rstrip(": ")
    moment = time_of(text)
    if name in _REMOVALS and moment is None and text not in _NOTHING | _NO:
        return f"has {name}"
    if name in _REMOVALS + _ENDS and moment and moment <= now:
        return f"has expired ({name})"
    if name in _BEGINNINGS and moment and moment > now:
        return f"is to be published later ({name})"
    return ""


def _notes_of_dates(fields: Fields) -> Iterator[Note]:
    for name in _ENDS:
        for text in _values(fields, name):
            if text not in _NOTHING and time_of(text) is None:
                # "never" is meant so.
                is_expected = not re.search(r"\d", text)
                yield Note("field", f"is no date, so the page does not expire ({name}: {text})", is_expected)


def _values(fields: Fields, name: str) -> Iterator[str]:
    value = fields.get(name, [])
    for text in [value] if isinstance(value, str) else value:
        yield text.strip().lower()


def time_of(text: str) -> datetime | None:
    """Return a date, which begins at midnight, or a time; None for another text."""
    found = _DAY.fullmatch(text)
    if not found:
        return None
    year, month, day, time = found.groups()
    try:
        moment = datetime.fromisoformat(f"{year}-{month:0>2}-{day:0>2}T{(time or '00:00').upper().replace(' ', '')}")
    except ValueError:
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
