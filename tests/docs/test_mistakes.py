"""The page of failures shows the warnings and the errors of frequent mistakes, word for word."""

from __future__ import annotations

import pytest

from tests.docs.mistakes import MISTAKES, Mistakes
from tests.docs.pages import ROOT

PAGE = ROOT / "docs" / "operate" / "when-something-fails.md"


@pytest.mark.parametrize("name", MISTAKES)
def test_the_page_shows_what_the_log_says(name, connect, service, tmp_path, monkeypatch):
    connect()
    lines = Mistakes(connect, service, tmp_path, monkeypatch).said(name)
    block = "```text\n" + "\n".join(lines) + "\n```\n"
    section = PAGE.read_text().partition(f"### {name}\n")[2].partition("\n#")[0]
    assert block in section, f"{PAGE.name}, {name}:\n{block}"
