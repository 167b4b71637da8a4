"""The process that parses files: its limits, and that nothing of it is left."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import threading
from multiprocessing.connection import Pipe

import psutil
import pytest

from airflow_provider_assistant.parsing.child import FORMATS, MOST_CHARACTERS, ChildParser, UnreadableFileError
from airflow_provider_assistant.parsing.pages import Page
from tests.unit.parsing.samples import pdf, repacked, xlsx

HOSTILE_HTML = {
    "nested": "<div>" * 20_000 + "text",
    "nested lists": "<ul><li>" * 5_000 + "text",
    "attribute": f"<p title='{'x' * 9_000_000}'>text</p>",
    "attributes": f"<p {' '.join(f'a{number}=1' for number in range(60_000))}>text</p>",
    "address": f"<a href='{'x' * 9_000_000}'>text</a>",
    "brackets": "<" * 300_000,
    "comment": "text<!--" * 60_000,
    "entities": '<!DOCTYPE x [<!ENTITY a "&b;&b;"><!ENTITY b "&a;&a;">]><p>text &a;</p>' + "&a;" * 100_000,
    "tables": "<table><tr><td>" * 3000 + "text",
    "tags": "<b>" * 10_000 + "text" + "</i>" * 10_000,
}


@pytest.mark.promise("security", "A hostile file ends in an error or a text, within its limits of time and memory.")
@pytest.mark.parametrize("html", HOSTILE_HTML.values(), ids=HOSTILE_HTML)
def test_hostile_pages_end(html, parse):
    """Each is refused, or read as far as it is valid."""
    with contextlib.suppress(UnreadableFileError):
        assert len(parse(".html", html.encode()).text) <= MOST_CHARACTERS


def test_control_characters_and_halves_of_characters_are_left_out(parse):
    found = parse(".html", b"<p>a&#0;b&#xD800;\x01c\td</p>")
    assert found.text.encode().decode().isprintable()


def test_a_file_that_takes_too_long_is_refused():
    before = set(psutil.Process().children())
    with ChildParser(seconds=0.001) as parser:
        with pytest.raises(UnreadableFileError, match=r"takes longer than 0\.001 seconds"):
            parser.parse(".pdf", pdf("text"))
        assert set(psutil.Process().children()) <= before


def test_a_file_is_not_refused_because_the_machine_is_busy():
    before = set(psutil.Process().children())
    with ChildParser(seconds=2) as parser:
        parser.parse(".pdf", pdf("text"))
        [child] = set(psutil.Process().children()) - before
        child.suspend()
        resume = threading.Timer(2.5, child.resume)
        resume.start()
        assert parser.parse(".pdf", pdf("more")) == Page(text="more")
        resume.join()


def test_a_file_that_needs_too_much_memory_is_refused():
    content = repacked(xlsx(A=[["x"]]), lambda name, member: bytes(200_000_000) if "styles" in name else member)
    with ChildParser(memory=300_000_000) as parser:
        with pytest.raises(UnreadableFileError, match=r"is too large or nested too deeply \(MemoryError\)"):
            parser.parse(".xlsx", content)


def test_an_orphan_ends_by_itself():
    """The system ends it after its processor time, because its parent may be gone."""
    script = (
        "import sys; from airflow_provider_assistant.parsing import child, pdf\n"
        "def page(content):\n    while True: pass\n"
        "pdf.page = page\n"
        "child.serve(int(sys.argv[1]), 0.5, 2 ** 31)"
    )
    connection, other = Pipe()
    process = subprocess.Popen([sys.executable, "-c", script, str(other.fileno())], pass_fds=[other.fileno()])
    other.close()
    connection.send_bytes(b'{"kind": ".pdf", "options": {}}')
    connection.send_bytes(b"")
    assert process.wait(60) == -signal.SIGXCPU


@pytest.mark.promise("security", "The process that parses files gets no secrets.")
def test_the_process_gets_no_secrets_and_ends_with_the_parser(monkeypatch):
    monkeypatch.setenv("AIRFLOW_CONN_ASSISTANT_DEFAULT", "secret")
    before = set(psutil.Process().children())
    with ChildParser() as parser:
        assert set(psutil.Process().children()) <= before
        assert parser.parse(".pdf", pdf("text")) == Page(text="text")
        [child] = set(psutil.Process().children()) - before
        assert not [name for name in child.environ() if name.startswith("AIRFLOW")]
        assert parser.parse(".pdf", pdf("more")) == Page(text="more")
        assert set(psutil.Process().children()) - before == {child}
    assert set(psutil.Process().children()) <= before


def test_the_process_imports_nothing_of_airflow():
    """Airflow would take seconds of each start, and memory of each file."""
    modules = [f"airflow_provider_assistant.parsing.{module}" for module in {"__main__", *FORMATS.values()}]
    script = f"import sys, {', '.join(modules)}; print([name for name in sys.modules if name.startswith('airflow.')])"
    assert subprocess.check_output([sys.executable, "-c", script], text=True) == "[]\n"


def test_a_new_process_after_many_files(monkeypatch):
    monkeypatch.setattr("airflow_provider_assistant.parsing.child.FILES_PER_PROCESS", 2)
    before, found = set(psutil.Process().children()), set()
    with ChildParser() as parser:
        for _ in range(3):
            parser.parse(".pdf", pdf("text"))
            found |= set(psutil.Process().children())
    assert len(found - before) == 2


def test_a_damaged_file_is_refused_and_the_next_one_is_read():
    with ChildParser() as parser:
        for suffix in sorted(suffix for suffix, module in FORMATS.items() if module != "html"):
            with pytest.raises(UnreadableFileError, match="is damaged"):
                parser.parse(suffix, b"something else")
        assert parser.parse(".pdf", pdf("text")) == Page(text="text")


def test_a_fault_of_the_package_is_not_called_damage():
    with ChildParser() as parser:
        with pytest.raises(UnreadableFileError, match=r"a fault of this package \(TypeError in child\.py, line \d+\)"):
            parser.parse(".pdf", pdf("text"), another_option=1)
        assert parser.parse(".pdf", pdf("text")) == Page(text="text")


def test_a_missing_library_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "pypdf", None)
    with ChildParser() as parser, pytest.raises(ModuleNotFoundError, match="pypdf"):
        parser.parse(".pdf", pdf("text"))


def test_a_text_has_a_largest_length(parse):
    with pytest.raises(UnreadableFileError, match="more than 10,000,000 characters"):
        parse(".xlsx", xlsx(A=[["x" * 30_000]] * 400))
