"""Front matter: its fields, what of it is text, and whether a page is published."""

from __future__ import annotations

import json
import random
import re
from datetime import UTC, datetime

import pytest

from airflow_provider_assistant.knowledge.front_matter import HIDDEN, fields_of, split_front_matter, unpublished

NOW = datetime(2026, 11, 25, 12, tzinfo=UTC)
ABOVE = ("", "\n\n", "\ufeff", "<!-- a -->\n", "<!-- a\n\n---\n-->\n\n", " \n")
UNPUBLISHED = [
    ("draft", True), ("Draft", "yes"), ("is_draft", True), ("status", "draft"), ("status", "Draft"),
    ("published", False), ("publish", "no"), ("status", "private"), ("Status", "unpublished"), ("private", True),
    ("archived", True), ("visibility", "internal"), ("is_published", False), ("hidden", "on"), ("noindex", True),
    ("robots", "noindex, follow"), ("robots", ["none"]), ("no-index", 1), ("deleted_at", "2026-01-01"),
    ("deleted-at", "1767225600"), ("expiryDate", "2026-11-25"), ("expiry_date", "2026-11-25 12:00:00Z"),
    ("expires", "2026/1/9"), ("unpublishDate", "2026-11-25T13:30:00+02:00"), ("publishDate", "2026-11-26"),
    ("pubDate", "2026-11-25T11:00:00-05:00"), ("published", "2027-1-1"),
]  # fmt: skip
PUBLISHED = [
    ("draft", False), ("published", True), ("publishDate", "2026-11-25"), ("drafts", True),
    ("expiryDate", "2026-11-26"), ("robots", "index"), ("status", "new"), ("date", "2030-01-01"),
    ("hidden", "no"), ("expires", "never"),
]  # fmt: skip


def yaml_of(name, value, dice):
    quote = dice.choice(["", "'", '"'])
    text = value if isinstance(value, str) and dice.random() < 0.5 else json.dumps(value)
    lines = [
        dice.choice(["# a\ntitle: b", "title: b"]),
        f"{quote}{name}{quote}{dice.choice(['', ' '])}: {text}{dice.choice(['', ' # a', ' '])}",
        dice.choice(["", "slug: a\ntags: [a, {b: c}]", "tags:\n  - draft\nx: |\n  draft: true"]),
    ]
    return f"---{dice.choice(['', ' ', 'yaml'])}\n" + "\n".join(lines) + dice.choice(["\n---\n", "\n...\n"])


def toml_of(name, value, dice):
    lines = ["title = 'a'", f"{json.dumps(name)} = {json.dumps(value)}", dice.choice(["", "[extra]\ndraft = true"])]
    return "+++\n" + "\n".join(lines) + "\n+++\n"


@pytest.mark.promise("sources of documents", "Drafts, expired and hidden pages are not published.")
@pytest.mark.parametrize("language", [yaml_of, toml_of])
@pytest.mark.parametrize(("settings", "is_hidden"), [(UNPUBLISHED, True), (PUBLISHED, False)])
def test_every_spelling_is_understood(language, settings, is_hidden):
    dice = random.Random(language.__name__)
    for name, value in settings:
        for above in ABOVE:
            written = f"{above}{language(name, value, dice)}the text"
            fields, text, _ = split_front_matter(written)
            assert text.strip() == "the text", written
            assert bool(unpublished(fields, NOW)) == is_hidden, written


@pytest.mark.parametrize(
    ("article", "reason"),
    [
        ({"published_at": None, "title": "A"}, "has publishedat: null"),
        ({"deleted_at": None, "archived": False, "published_at": datetime(2026, 1, 1, tzinfo=UTC)}, ""),
        ({"seo": {"noindex": True}}, "has seo.noindex: true"),
        ({"robots": {"index": False}}, "has robots.index: false"),
        ({"head": [{"tag": "meta", "attrs": {"name": "robots", "content": "noindex"}}]}, "has robots: noindex"),
        ({"head": [["meta", {"name": "description", "content": "noindex"}]]}, ""),
        ({"expires": "2020-01-01"}, "has expired (expires)"),
        ({"publish_at": "2030-01-01"}, "is to be published later (publishat)"),
    ],
)
def test_articles_and_heads_of_pages_have_the_same_table(article, reason):
    assert unpublished(fields_of(article), NOW) == reason


def test_every_value_of_the_table_hides_a_page():
    for name, values in HIDDEN.items():
        for value in values:
            assert unpublished({name: value}, NOW) == unpublished({name: ["x", value.upper()]}, NOW) != ""


def test_an_unreadable_date_is_a_note():
    for given, is_expected in (("never", True), ("2026-13-01", False), ("in 5 days", False)):
        fields, _, (note, *_) = split_front_matter(f"---\nexpires: {given}\n---\ntext")
        assert (note.unit, note.is_expected) == ("field", is_expected)
        assert given in note.reason
        assert not unpublished(fields, NOW)


@pytest.mark.parametrize(
    "text",
    [
        "---\n\nA rule.\n\n---\n",
        "a\n\n---\ndraft: true\n---\n",
        "\n---\nNote: a rule below other lines\n---\n",
        "---\n{% include a.html %}\n---\ntext",
        "---\nNote that https://x.org\n---\n",
        '{{ "a": 1 }}',
        "{:toc}\ntext",
        "{% raw %}\ntext",
        "Note: one line.\n\ntext",
    ],
)
def test_what_only_looks_like_front_matter_is_text(text):
    assert split_front_matter(text) == ({}, text, [])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("---\ntitle: [a\n---\n", "not valid YAML"),
        ("---\ntitle: " + "[" * 19_000 + "\n---\n", "not valid YAML"),
        ("---\na: &a [*a]\n---\n", "not valid YAML"),
        ("---\na0: &a0 []\n" + "".join(f"a{n}: &a{n} [{f'*a{n - 1}, ' * 10}]\n" for n in range(1, 12)) + "---\n",
         "more than 10,000 values"),
        ("+++\ntitle = \n+++\n", "not valid TOML"),
        ("---\ntitle: " + "x" * 900_000, "does not end within 20,000 characters"),
        ("---json\n{}\n---\n", "begins with '---json'; write it in YAML"),
        *((f"{above}{json_head}\ntext", f"begins with {mark!r}")
          for above in ABOVE
          for mark, json_head in (
              (";;;", ";;;\n{}\n;;;"), (";;;", ';;; json\n"draft": true\n;;;'), ("{", '{"draft": true}'),
              ("{", '{\n  "title": "a",\n  "draft": true\n}'), ("{", '{ "tags" : [')
          )),
    ],
)  # fmt: skip
def test_front_matter_that_cannot_be_read_is_refused(text, message):
    """The page could be a draft."""
    with pytest.raises(ValueError, match=re.escape(message)):
        split_front_matter(text)


def test_values_keep_their_spelling_and_their_place():
    fields, _, _ = split_front_matter(
        "---\ntitle: 007\na: {B c: [1.10, {c: 2}]}\nd: {{ page.d }}\nf: &g yes\ndraft: *g\nj: []\nk:\n---\n"
    )
    assert fields == {
        "title": "007", "a.bc": ["1.10"], "a.bc.c": ["2"], "f": "yes", "draft": "yes", "k": "",
    }  # fmt: skip


TAGS = ("{{ page.x }}", "{{x|default('a: b')}}", "{{ a }} {{ b }}", "{% if x %}", "{%- raw -%}", "{{\n  x\n}}")


@pytest.mark.promise("sources of documents", "Tags of templates do not make front matter unreadable.")
@pytest.mark.parametrize("tag", TAGS)
@pytest.mark.parametrize("quote", ["", '"'])
def test_a_value_that_is_only_a_tag_of_a_template_is_empty_and_noted(tag, quote):
    value = f"{quote}{tag}{quote}"
    for line, name in ((f"title: {value}", "title"), (f"a:\n  b-c: {value}", "a.bc"), (f"tags:\n- {value}", "tags")):
        fields, text, notes = split_front_matter(f"---\nslug: a\n{line}\ndraft: yes\n---\ntext")
        assert (fields["draft"], text.strip()) == ("yes", "text")
        assert name not in fields
        assert [note.reason for note in notes if note.unit == "field"] == [f"is only a tag of a template ({name})"]


@pytest.mark.parametrize("tag", TAGS[:-1])
def test_a_text_with_a_tag_of_a_template_is_kept(tag):
    head = (
        f"---\n{{% if a %}}\ntitle: Use {tag}\n{{% endif %}}\nd: {tag}: a\ntags: [{tag}, b]\nx: |\n  {tag}\n  c\n---\n"
    )
    fields, _, _ = split_front_matter(head)
    assert fields["title"] == f"Use {tag}"
    assert fields["d"] == f"{tag}: a"
    assert "b" in fields["tags"][-2:]
    assert fields["x"].removeprefix("# ").strip() == f"{tag}\nc"


@pytest.mark.parametrize(
    ("fields", "body", "text"),
    [
        ("question: Do you ship?", "Yes.", "Yes."),
        ("title: Shipping\nquestion: Do you ship?", "Yes.", "## Do you ship?\n\nYes."),
        ("question: Do you ship?\nanswer: yes", "", "yes"),
        ("faq:\n- question: A b?\n  answer: C.\n- q: D?\n  a: |\n    E.\n\n    F.", "Text.",
         "Text.\n\n## A b?\n\nC.\n\nD?\n\nE.\n\n    F."),
        ("layout: home\nhero:\n  name: The tool\n  tagline: Does all you need.\n  link: /guide", "<!-- a -->",
         "<!-- a -->\n\n## The tool\n\nDoes all you need."),
        ("title: Guide\ntags: [A b c d e]\nmenu: Main menu", "", ""),
        ("title: Guide\ndescription: All that you need to know.", "", "All that you need to know."),
    ],
)  # fmt: skip
def test_text_that_only_stands_in_front_matter_becomes_the_text(fields, body, text):
    found = split_front_matter(f"---\n{fields}\n---\n{body}")[1].strip()
    assert re.sub(r"\n *", "\n", found) == re.sub(r"\n *", "\n", text)


@pytest.mark.promise("sources of documents", "Text in front matter is in the document, or its words are counted.")
def test_words_of_front_matter_are_kept_or_counted():
    dice = random.Random(1)
    names = ["question", "answer", "description", "summary", "hero", "text", "notes", "tags"]
    for _ in range(100):
        words = [f"Word{number}" for number in range(60)]
        left = iter(words)
        fields = {}
        for name in dice.sample(names, 5):
            value = " ".join(next(left) for _ in range(dice.randint(1, 5)))
            fields[name] = dice.choice([value, [value], {"text": value}, [{"question": value, "answer": next(left)}]])
        body = dice.choice(["", "Some text."])
        found, text, notes = split_front_matter(f"---\n{json.dumps(fields)}\n---\n{body}")
        title = found.get("question", "")
        kept = set(re.findall(r"Word\d+", f"{title} {text}"))
        given = set(re.findall(r"Word\d+", json.dumps(fields)))
        assert kept <= given
        assert sum(note.count for note in notes) == len(given - kept)
