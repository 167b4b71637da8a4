"""PDF as Markdown, and files that are made to break a parser."""

from __future__ import annotations

import contextlib
import io
import zlib
from functools import partial

import pypdf
import pytest

from airflow_provider_assistant.parsing.child import MOST_PAGES, UnreadableFileError
from airflow_provider_assistant.parsing.pages import Note, Page
from airflow_provider_assistant.parsing.pdf import page
from tests.unit.parsing.samples import file_of, pdf

OUTLINE = (
    b"<< /Type /Outlines /First 101 0 R /Last 102 0 R >>",
    b"<< /Title (Office) /Parent 100 0 R /Next 102 0 R /First 103 0 R /Last 103 0 R /Dest [10 0 R /Fit] >>",
    b"<< /Title (Home) /Parent 100 0 R /Dest [12 0 R /Fit] >>",
    b"<< /Title (Hours) /Parent 101 0 R /Dest [10 0 R /Fit] >>",
)


def encrypted(password: str) -> bytes:
    writer = pypdf.PdfWriter(io.BytesIO(pdf("From 9.")))
    writer.encrypt(password, "owner", algorithm="AES-256")
    file = io.BytesIO()
    writer.write(file)
    return file.getvalue()


def test_pages_bookmarks_and_title():
    content = pdf(
        "From 9\nto 5.\n# 1", "Bye.", objects=OUTLINE, catalog=b"/Outlines 100 0 R", info=b"/Title (Handbook)"
    )
    text = "# Office\n\n## Hours\n\nFrom 9\nto 5.\n\\# 1\n\n# Home\n\nBye."
    assert page(content) == Page({"title": "Handbook"}, text)


@pytest.mark.parametrize("title", [b"", b"/Title (Microsoft Word - handbook.doc)"])
def test_a_name_given_by_the_export_is_no_title(title):
    assert page(pdf("text", info=title)) == Page(text="text")


def test_a_page_that_is_a_picture_is_counted_and_a_blank_one_is_not():
    picture = b"<< /Type /XObject /Subtype /Image /Width 1 /Height 1 /Length 1 >> stream\nx\nendstream"
    before, last = b"/Resources << ", b"/Resources << /XObject << /I 100 0 R >> "
    content = last.join(pdf("text", "", "", objects=(picture,)).rsplit(before, 1))
    note = Note("page", "has a picture and no text, like a scan", is_expected=False, count=1)
    assert page(content) == Page(text="text", notes=[note])
    assert page(pdf("")) == Page()


def test_a_file_is_refused_if_it_has_a_password():
    assert page(encrypted("")).text == "From 9."
    with pytest.raises(UnreadableFileError, match="is encrypted"):
        page(encrypted("secret"))


def test_too_many_pages():
    with pytest.raises(UnreadableFileError, match="more than 5,000 pages"):
        page(pdf(*[""] * (MOST_PAGES + 1)))


def test_invalid_bookmarks_do_not_hide_the_text():
    endless = (b"<< /First 101 0 R >>", b"<< /Title (A) /Next 101 0 R /Dest [10 0 R /Fit] >>")
    for objects in (endless, (b"<< /First 101 0 R >>", b"<< /Title 7 /Dest /None >>"), (b"[ 1 2 ]",)):
        found = page(pdf("From 9.", objects=objects, catalog=b"/Outlines 100 0 R"))
        assert found.text.endswith("From 9.")


def bomb(size: int) -> bytes:
    stream = zlib.compress(b"(x) Tj " * (size // 7))
    return pdf("x").replace(b"/Contents 11 0 R", b"/Contents 100 0 R").replace(
        b"trailer", b"100 0 obj\n<< /Filter /FlateDecode /Length %d >> stream\n%s\nendstream\nendobj\ntrailer"
        % (len(stream), stream)
    )  # fmt: skip


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(file_of({1: b"<< /Pages 2 0 R >>", 2: b"<< /Type /Pages /Kids [2 0 R] /Count 1 >>"}), id="pages"),
        pytest.param(pdf("x").replace(b"/Contents 11 0 R", b"/Contents [11 0 R 100 0 R]"), id="missing"),
        pytest.param(pdf("x", objects=(b"100 0 R",)).replace(b"/Contents 11", b"/Contents 100"), id="itself"),
        pytest.param(pdf("x").replace(b"/Count 1", b"/Count 999999999"), id="count"),
        pytest.param(partial(bomb, 100_000_000), id="bomb"),
        pytest.param(b"%PDF-1.7\n" + b"[" * 1_000_000, id="nested"),
        pytest.param(pdf("x")[:200], id="cut"),
        pytest.param(b"", id="empty"),
    ],
)
def test_hostile_files_end(content, parse):
    """Each is refused, or read as far as it is valid."""
    with contextlib.suppress(UnreadableFileError):
        assert len(parse(".pdf", content() if callable(content) else content).text) < 1000
