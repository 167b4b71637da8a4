"""``airflow assistant knowledge preview``: chunks, and what is left out."""

from __future__ import annotations

import pytest

from tests.website import Website, page


@pytest.fixture
def folder(tmp_path):
    for name, text in {
        "start.md": "# Start\n\nFirst words.\n\n## Next\n\nA longer <!-- of hidden words --> second section.\n",
        "draft.md": "---\ndraft: true\n---\n# Secret\n\nNot yet.\n",
        "sub/café page.md": "# Café\n\nÖffnungszeiten.\n",
        "old.doc": "binary",
        "photo.png": "binary",
        "page.html": "<nav>One two three</nav><p>Text.</p><p class=ad>Buy now</p>",
    }.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    return tmp_path


def test_the_account_is_shown_with_the_words_that_each_rule_left_out(cli, folder):
    shown = cli("knowledge", "preview", folder, "--remove", ".ad", "--output", "json").json
    assert shown["read"] == {"file": 3, "chunk": 4}
    assert [chunk["title"] for chunk in shown["chunks"]] == ["page", "Start", "Start > Next", "Café"]
    assert shown["chunks"][2]["content"] == "A longer  second section."
    words = {entry["reason"]: entry["count"] for entry in shown["left_out"] if entry["unit"] == "word"}
    assert sorted(words.values()) == [2, 3, 3]
    assert any("nav" in reason for reason in words)
    files = {entry["examples"][0]: entry["is_expected"] for entry in shown["left_out"] if entry["unit"] == "file"}
    assert files == {"draft.md": True, "old.doc": False, "photo.png": True}
    assert "Not yet" not in str(shown)


def test_strict_fails_if_content_may_be_lost(cli, folder):
    result = cli("knowledge", "preview", str(folder), "--strict", "-o", "plain")
    assert result.code == 1
    assert "warning\t1\tfile\thas a suffix that is not read (.doc)\told.doc" in result.out
    (folder / "old.doc").unlink()
    (folder / "photo.png").unlink()
    result = cli("knowledge", "preview", str(folder), "--strict")
    assert result.code == 0
    assert "3 files read, 4 chunks read; 1 left out." in result.out


def test_what_cannot_be_read_does_not_end_the_preview(cli, folder):
    (folder / "broken.md").write_bytes(b"\xff")
    shown = cli("knowledge", "preview", folder, "--output", "json").json
    assert (shown["unreadable"], shown["read"]["file"], shown["is_cut"]) == (1, 3, False)


def test_a_large_source_is_read_in_part(cli, folder):
    for number in range(9):
        (folder / f"page {number}.md").write_text(f"Text {number}.")
    result = cli("knowledge", "preview", folder, "--max-documents", "3")
    assert (result.code, "the preview ends after 3" in result.out) == (0, True)


@pytest.mark.parametrize(("most", "is_cut"), [("2", True), ("3", False)])
def test_the_first_pages_of_a_website_are_read(cli, most, is_cut):
    with Website() as website:
        sitemap = website.site({f"/{number}": page(f"Page {number}", "From nine to five.") for number in range(3)})
        options = ["--max-documents", most, "--private-networks", "--requests-per-second", "1000"]
        shown = cli("knowledge", "preview", sitemap, *options, "--output", "json").json
    assert (len(shown["chunks"]), shown["is_cut"]) == (int(most), is_cut)


def test_a_bad_argument(cli, folder):
    assert cli("knowledge", "preview", str(folder / "missing")).code == 2
    assert cli("knowledge", "preview", str(folder), "--size", "0").code == 2
