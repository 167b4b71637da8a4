"""``airflow assistant knowledge preview``: documents, chunks, samples, and what is left out."""

from __future__ import annotations

import json

import pytest


@pytest.fixture
def folder(tmp_path):
    for name, text in {
        "start.md": "# Start\n\nFirst words.\n\n## Next\n\nA longer text of the second section.\n",
        "draft.md": "---\ndraft: true\n---\n# Secret\n\nNot yet.\n",
        "sub/café page.md": "# Café\n\nÖffnungszeiten.\n",
        "old.doc": "binary",
        "photo.png": "binary",
    }.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    return tmp_path


def test_what_is_read_and_left_out(cli, folder):
    result = cli("knowledge", "preview", str(folder), "--output", "json")
    assert result.code == 0
    shown = json.loads(result.out)
    assert shown["read"] == {"file": 2, "chunk": 3}
    assert [(document["parent"], document["chunks"]) for document in shown["documents"]] == [
        ("start.md", 2),
        ("sub/café page.md", 1),
    ]
    assert len(shown["sizes"]) == 3
    assert shown["samples"]["longest"]["content"] == "A longer text of the second section."
    left_out = {entry["examples"][0]: entry["is_expected"] for entry in shown["left_out"]}
    assert left_out["draft.md"] is True
    assert left_out["old.doc"] is False
    assert "Not yet" not in result.out


def test_strict_fails_if_content_may_be_lost(cli, folder):
    assert cli("knowledge", "preview", str(folder), "--strict").code == 1
    (folder / "old.doc").unlink()
    (folder / "photo.png").unlink()
    result = cli("knowledge", "preview", str(folder), "--strict")
    assert result.code == 0
    assert "2 files read, 3 chunks read; 1 left out" in result.out


def test_what_cannot_be_read_does_not_end_the_preview(cli, folder):
    (folder / "broken.md").write_bytes(b"\xff")
    shown = cli("knowledge", "preview", folder, "--output", "json").json
    assert (shown["unreadable"], shown["read"]["file"], shown["is_cut"]) == (1, 2, False)


def test_a_large_source_is_read_in_part(cli, folder):
    for number in range(9):
        (folder / f"page {number}.md").write_text(f"Text {number}.")
    result = cli("knowledge", "preview", folder, "--max-documents", "3")
    assert (result.code, "There is more" in result.out) == (0, True)


def test_a_bad_argument(cli, folder):
    assert cli("knowledge", "preview", str(folder / "missing")).code == 2
    assert cli("knowledge", "preview", str(folder), "--size", "0").code == 2
