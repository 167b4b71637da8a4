"""Whether a page is published, in all the spellings of front matter."""

from __future__ import annotations

import json
import random
from datetime import UTC, datetime

import pytest

from airflow_provider_assistant.knowledge.front_matter import split_front_matter
from airflow_provider_assistant.knowledge.publication import reason_unpublished

NOW = datetime(2026, 11, 25, 12, tzinfo=UTC)
ABOVE = ("", "\n\n", "\ufeff", "<!-- a -->\n", "<!-- a\n\n---\n-->\n\n", " \n")
UNPUBLISHED = {
    "is a draft": [("draft", True), ("Draft", "yes"), ("is_draft", True), ("status", "draft"), ("status", "Draft")],
    "is not published": [("published", False), ("publish", "no"), ("status", "private"), ("Status", "unpublished"),
                         ("visibility", "private"), ("private", True)],
    "is hidden": [("hidden", True), ("hidden", "on")],
    "asks not to be indexed": [("noindex", True), ("robots", "noindex, follow"), ("robots", ["none"]), ("no-index", 1)],
    "has expired": [("expiryDate", "2026-11-25"), ("expiry_date", "2026-11-25 12:00:00Z"), ("expires", "2026/1/9"),
                    ("unpublishDate", "2026-11-25T13:30:00+02:00")],
    "is to be published later": [("publishDate", "2026-11-26"), ("pubDate", "2026-11-25T11:00:00-05:00"),
                                 ("published", "2027-1-1")],
    None: [("draft", False), ("draft", "False"), ("published", True), ("publishDate", "2026-11-25"), ("drafts", True),
           ("expiryDate", "2026-11-26"), ("robots", "index"), ("status", "new"), ("date", "2030-01-01"),
           ("hidden", "no")],
}  # fmt: skip


def yaml_of(name, value, random_):
    text = json.dumps(value)
    if isinstance(value, str) and random_.random() < 0.5:
        text = value
    quote = random_.choice(["", "'", '"'])
    lines = [f"{quote}{name}{quote}{random_.choice(['', ' ', '  '])}: {text}{random_.choice(['', ' # a', ' '])}"]
    lines += random_.choice([[], ["title: a", "tags: [a, {b: c}]"], ["tags:", "  - draft", "x: |", "  draft: true"]])
    random_.shuffle(lines) if len(lines) < 3 else None
    lines.insert(0, random_.choice(["", "# a", "title: b"]))
    return f"---{random_.choice(['', ' '])}\n" + "\n".join(lines) + random_.choice(["\n---\n", "\n...\n"])


def toml_of(name, value, random_):
    lines = [f"title = 'a'\n{json.dumps(name)} = {json.dumps(value)}"]
    lines.append(random_.choice(["", "[extra]\ndraft = true", "# a"]))
    begin, end = random_.choice([("+++", "+++"), ("---toml", "---")])
    return f"{begin}\n" + "\n".join(lines) + f"\n{end}\n"


def json_of(name, value, random_):
    fields = {"title": "a", name: value, "extra": {"draft": True, "x": [1]}}
    begin, end = random_.choice([("", ""), (";;;\n", ";;;\n"), ("---json\n", "---\n"), ("---\n", "---\n")])
    return begin + json.dumps(fields, indent=random_.choice([None, 2])) + "\n" + end


def lines_of(name, value, random_):
    text = ", ".join(value) if isinstance(value, list) else str(value)
    lines = ["Title: a", f"{name.capitalize()}: {text}", "Tags: a, b\n    c"]
    random_.shuffle(lines)
    return "\n".join(lines) + "\n\n"


@pytest.mark.promise("sources of documents", "Drafts, expired and hidden pages are not published.")
@pytest.mark.parametrize("language", [yaml_of, toml_of, json_of, lines_of])
@pytest.mark.parametrize("reason", UNPUBLISHED)
def test_every_spelling_is_understood(language, reason):
    random_ = random.Random(f"{language.__name__} {reason}")
    for name, value in UNPUBLISHED[reason]:
        for above in ABOVE:
            written = language(name, value, random_)
            fields, text = split_front_matter(f"{above.removeprefix(chr(0xFEFF))}{written}the text")
            assert text.strip() == "the text", written
            assert reason_unpublished(fields, NOW) == reason, written


@pytest.mark.parametrize(
    "text",
    [
        "---\n\nA rule.\n\n---\n",
        "a\n\n---\ndraft: true\n---\n",
        "\n---\nNote: a rule below other lines\n---\n",
        "---\n{% include a.html %}\n---\ntext",
        '{"a": 1}',
        "Note: one line.\n\ntext",
        "draft",
    ],
)
def test_what_only_looks_like_front_matter_is_text(text):
    assert split_front_matter(text) == ({}, text)


@pytest.mark.parametrize(
    "lines",
    [
        "head:\n  - tag: meta\n    attrs: {name: robots, content: noindex}",
        "head:\n  - - meta\n    - {name: description, content: a}\n  - - meta\n    - {name: robots, content: 'none'}",
        "robots: {index: false}",
        "seo:\n  noindex: true",
    ],
)
def test_nested_settings_for_robots(lines):
    fields, _ = split_front_matter(f"---\n{lines}\n---\ntext")
    assert reason_unpublished(fields, NOW) == "asks not to be indexed"


@pytest.mark.parametrize("expiry", ["soon", "2026-13-01", "2026-11-25 25:00"])
def test_an_expiry_that_is_no_date_is_an_error(expiry):
    with pytest.raises(ValueError, match="which is not a date"):
        reason_unpublished({"expirydate": expiry}, NOW)


def test_values_of_collections_keep_their_place():
    fields, _ = split_front_matter(
        "---\na: {b: [1, {c: 2}]}\n{{ d }}: e\nf: &g yes\ndraft: *g\n? [h]\n: i\nj: []\nk: 7\n---\n"
    )
    assert {name: fields[name] for name in ("a.b", "a.b.c", "f", "draft", "k")} == {
        "a.b": ["1"], "a.b.c": ["2"], "f": "yes", "draft": "yes", "k": "7",
    }  # fmt: skip
