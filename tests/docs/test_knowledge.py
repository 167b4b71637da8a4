"""The recipes for help desks: shapes of their public documentation become documents."""

from __future__ import annotations

from typing import Any

import pytest

from tests.docs.pages import ROOT, blocks_of

(RECIPES,) = [block for block in blocks_of(ROOT / "docs/load/knowledge-sources.md") if "def zendesk" in block.code]
HTML = "<h2>Hours</h2><p>From <b>9</b> to 5 &amp; later: <a href='/rooms'>rooms</a>.</p>"


def zendesk(number: int, *, is_draft: bool) -> dict[str, Any]:
    return {
        "id": number,
        "title": f"Title {number}",
        "body": HTML,
        "html_url": f"https://acme.zendesk.com/hc/en-us/articles/{number}",
        "draft": is_draft,
        "user_segment_id": None,
        "author_id": 5,
        "locale": "en-us",
        "updated_at": "2026-11-01T00:00:00Z",
    }


def confluence(number: int, *, is_draft: bool) -> dict[str, Any]:
    return {
        "id": str(number),
        "type": "page",
        "title": f"Title {number}",
        "status": "archived" if is_draft else "current",
        "body": {"export_view": {"value": HTML, "representation": "export_view"}, "_expandable": {}},
        "version": {"when": "2026-11-01T00:00:00.000Z", "number": 3},
        "_links": {"webui": f"/spaces/ENG/pages/{number}", "self": "https://acme.atlassian.net/wiki/rest/api/1"},
    }


ADDRESSES = {
    zendesk: "https://acme.zendesk.com/hc/en-us/articles/1",
    confluence: "https://acme.atlassian.net/wiki/spaces/ENG/pages/1",
}


@pytest.mark.promise("sources of documents", "Articles of help desks are documents with the readers' addresses.")
@pytest.mark.parametrize("shape", ADDRESSES, ids=lambda shape: shape.__name__)
def test_a_recipe_reads_what_visitors_may_see(shape: Any) -> None:
    recipes: dict[str, Any] = {}
    exec(RECIPES.code, recipes)
    rows = recipes[shape.__name__]([shape(1, is_draft=False), shape(2, is_draft=True)])
    (row,) = rows
    host = "/".join(ADDRESSES[shape].split("/")[:3])
    assert (row["key"], row["parent"], row["title"], row["url"]) == ("1", "1", "Title 1", ADDRESSES[shape])
    assert row["content"] == f"## Hours\n\nFrom **9** to 5 & later: [rooms]({host}/rooms)."
    assert row["date"].startswith("2026-11-01T00:00:00")
    (left_out,) = rows.account.left_out
    assert (left_out.unit, left_out.count, left_out.is_expected) == ("document", 1, True)
