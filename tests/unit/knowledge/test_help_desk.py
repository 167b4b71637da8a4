"""Articles of help desks as rows: addresses for readers, text from HTML, without drafts and other languages."""

from __future__ import annotations

import random

import pytest

from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.knowledge import article_documents, help_desk, split_documents
from airflow_provider_assistant.parsing.limits import UnreadableFileError


def zendesk(number, text, *, is_draft=False, locale="en-us"):
    return {
        "id": 360000 + number,
        "url": f"https://acme.zendesk.com/api/v2/help_center/{locale}/articles/{number}.json",
        "html_url": f"https://acme.zendesk.com/hc/{locale}/articles/{number}",
        "title": f"Title {number}",
        "name": "not this",
        "body": text,
        "draft": is_draft,
        "locale": locale,
        "section_id": 7,
        "created_at": "2020-01-01T00:00:00Z",
        "updated_at": "2026-11-01T00:00:00Z",
    }


def intercom(number, text, *, is_draft=False, locale="en"):
    return {
        "type": "article",
        "id": str(number),
        "title": f"Title {number}",
        "description": "A summary.",
        "body": text,
        "state": "draft" if is_draft else "published",
        "url": None if is_draft else f"https://help.acme.com/{locale}/articles/{number}",
        "updated_at": 1793491200,
        "default_locale": locale,
    }


def freshdesk(number, text, *, is_draft=False, locale=None):
    return {
        "id": number,
        "title": f"Title {number}",
        "description": text,
        "description_text": "not this",
        "status": 1 if is_draft else 2,
        "type": 1,
        "folder_id": 5,
        "updated_at": "2026-11-01T00:00:00Z",
    }


def confluence(number, text, *, is_draft=False, locale=None, form="storage"):
    return {
        "id": str(number),
        "type": "page",
        "title": f"Title {number}",
        "status": random.Random(number).choice(["draft", "archived", "trashed"]) if is_draft else "current",
        "body": {form: {"value": text, "representation": form}, "_expandable": {}},
        "version": {"when": "2026-11-01T00:00:00.000Z", "number": 3},
        "space": {"key": "ENG", "name": "Engineering"},
        "_links": {
            "webui": f"/spaces/ENG/pages/{number}",
            "self": "https://acme.atlassian.net/wiki/rest/api/content/1",
        },
    }


SHAPES = {
    zendesk: "https://acme.zendesk.com/hc/en-us/articles/1",
    intercom: "https://help.acme.com/en-us/articles/1",
    freshdesk: None,
    confluence: "https://acme.atlassian.net/wiki/spaces/ENG/pages/1",
}
BODIES = [
    ("<h2>Hours</h2><p>From <b>9</b> to 5 &amp; later.</p>", "## Hours\n\nFrom **9** to 5 & later."),
    ("<aside>Note</aside><ul><li>a</li></ul><script>x</script>", "Note\n\n- a"),
    ("Plain text.\n\n- one\n- two", "Plain text.\n\n- one\n- two"),
    ("Q&amp;A", "Q&A"),
    ("<p>a</p><pre># no heading</pre>", "a\n\n```\n# no heading\n```"),
]


@pytest.mark.promise("sources of documents", "Articles of four help desks are documents with the readers' addresses.")
@pytest.mark.parametrize("shape", SHAPES)
def test_articles_for_readers_are_documents(shape):
    for html, text in BODIES:
        article = shape(1, html, locale="en-us")
        (row,) = article_documents([article], locales="en", base_url="https://acme.atlassian.net/wiki/")
        locale = "/en-us" if shape in (zendesk, intercom) else ""
        assert row["key"] == row["parent"] == f"{article['id']}{locale}"
        assert (row["title"], row["content"], row["url"]) == ("Title 1", text, SHAPES[shape])
        assert row["date"].startswith("2026-11-01T00:00:00")
        assert row["category"] == ("Engineering" if shape is confluence else None)


def test_what_is_left_out_is_counted():
    drafts = [shape(number, "text", is_draft=True, locale="en") for number, shape in enumerate(SHAPES)]
    others = [zendesk(7, "text", locale="de"), intercom(8, "text", locale="pt-br")]
    rows = article_documents([*drafts, *others, freshdesk(9, "text")], locales="en")
    assert [row["key"] for row in rows] == ["9"]
    counts = {one.reason: (one.count, one.is_expected) for one in rows.account.left_out}
    assert counts == {"is a draft": (4, True), "is in another language": (2, True)}
    assert rows.account.as_dict()["read"] == {"article": 1}


def test_what_could_be_lost_is_a_warning_or_an_error():
    given = [
        freshdesk(1, "text"),
        {**intercom(2, "text"), "state": "in review"},
        zendesk(3, None),
        zendesk(4, "<p> </p>"),
        confluence(6, ""),
        confluence(5, '<p /><ac:structured-macro ac:name="children" ac:schema-version="2" />'),
    ]
    rows = article_documents(given)
    assert [row["key"] for row in rows] == ["1"]
    assert [(one.reason, one.count) for one in rows.account.unexpected] == [
        ("has no text", 4),
        ("has an unknown state (in review)", 1),
    ]
    with pytest.raises(AssistantInputError, match="in review"):
        list(article_documents(given, strict=True))


@pytest.mark.parametrize(
    ("fields", "is_document"),
    [
        ({"published": None}, True),
        ({"published": False}, False),
        ({"published": "no"}, False),
        ({"draft": "true"}, False),
        ({"state": "PUBLISHED"}, True),
        ({"status": "publish"}, True),
        ({"status": 1}, False),
    ],
)
def test_what_is_a_draft(fields, is_document):
    rows = article_documents([{"id": 1, "body": "text", **fields}])
    assert len(list(rows)) == is_document
    assert [one.is_expected for one in rows.account.left_out] == [True] * (not is_document)


def test_other_fields_are_named():
    article = {
        "number": 5,
        "fields": {"head": "H", "texts": [{"html": "<p>a</p>"}]},
        "link": "https://x.org/5",
        "section": 3,
        "flag": "no",
        "status": "odd",
        "lang": "FR_ca",
        "day": "2026-01-01",
        "a.b": "dotted",
    }
    (row,) = article_documents(
        [article],
        key="number",
        title="fields.head",
        content="fields.texts.0.html",
        url=lambda one: one["link"] + "/api/",
        category=lambda one: {3: "Three"}[one["section"]],
        date="day",
        locale="lang",
        locales=["fr"],
        is_draft="flag",
    )
    assert row == {
        "key": "5",
        "parent": "5",
        "title": "H",
        "content": "a",
        "url": "https://x.org/5/api/",
        "category": "Three",
        "date": "2026-01-01",
    }
    (row,) = article_documents([{**article, "a.b": "dotted"}], content="a.b", is_draft=lambda one: False)
    assert (row["key"], row["content"]) == (None, "dotted")
    assert list(article_documents([article], content="a.b", is_draft=lambda one: "yes")) == []


def test_translations_inside_an_article():
    translations = {
        "type": "article_translated_content",
        "en": {"title": "Hours", "body": "<p>From 9</p>", "state": "published", "url": "https://x.org/en/7"},
        "de": {"title": "Zeiten", "body": "<p>Ab 9</p>", "state": "published", "url": "https://x.org/de/7"},
        "fr": {"title": "Heures", "body": "<p>De 9</p>", "state": "draft"},
        "es": None,
    }
    article = {**intercom(7, "<p>From 9</p>"), "translated_content": translations}
    rows = list(article_documents([article], locales=["de", "en", "fr"]))
    assert [(row["key"], row["title"], row["content"], row["url"]) for row in rows] == [
        ("7/en", "Hours", "From 9", "https://x.org/en/7"),
        ("7/de", "Zeiten", "Ab 9", "https://x.org/de/7"),
    ]
    assert [row["key"] for row in article_documents([article])] == ["7/en"]


def test_an_article_that_cannot_be_parsed(monkeypatch):
    def parse(parser, kind, content):
        if b"bad" in content:
            raise UnreadableFileError("takes too long")
        return {"text": "text"}

    monkeypatch.setattr(help_desk.ChildParser, "parse", parse)
    articles = [freshdesk(1, "<p>good</p>"), freshdesk(2, "<p>bad</p>"), freshdesk(3, "<p>good</p>")]
    with pytest.raises(AssistantInputError, match="article '2' takes too long"):
        list(article_documents(articles))
    rows = article_documents(articles, on_error="skip")
    assert [(row["key"], row["parent"]) for row in rows] == [("1", "1"), (None, "2"), ("3", "3")]
    assert [(one.reason, one.count) for one in rows.account.unexpected] == [("cannot be parsed", 1)]
    with pytest.raises(AssistantInputError, match="on_error must be"):
        article_documents(articles, on_error="ignore")


ADF = {"type": "doc", "version": 1, "content": []}


@pytest.mark.parametrize(
    ("article", "problem"),
    [
        ({**confluence(1, ""), "body": {"atlas_doc_format": {"value": "{}"}}}, "article '1' has a body in Atlassian's"),
        ({"id": 5, "body": ADF}, "article '5' has a body in Atlassian's document format"),
        ({"id": 5, "body": {}}, "article '5' has a body without export_view, view or storage"),
        ({"id": 5, "words": "text"}, "article '5' has no text: its fields are id, words"),
        ("articles", "article 0 is a str, not a mapping"),
    ],
)
def test_an_article_that_cannot_be_read_is_named(article, problem):
    with pytest.raises(AssistantInputError, match=problem):
        list(article_documents([article]))


def test_the_base_of_confluence_in_each_page():
    page = confluence(1, "<p>See <a href='/wiki/x'>x</a>.</p>", form="export_view")
    page["_links"]["base"] = "https://acme.atlassian.net/wiki"
    (chunk,) = split_documents(article_documents([page]))
    assert chunk["url"] == "https://acme.atlassian.net/wiki/spaces/ENG/pages/1"
    assert chunk["content"] == "See [x](https://acme.atlassian.net/wiki/x)."
