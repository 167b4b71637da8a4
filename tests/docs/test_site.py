"""The site builds without warnings, has every page in its sidebar, and loads nothing from other hosts."""

from __future__ import annotations

import json
import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, pages

TOOLS = ROOT / "docs" / "site"
builder = runpy.run_path(str(TOOLS / "build_site.py"))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site. Sphinx warns of links and anchors without a target, and of pages that no page lists."""
    for tool in ("sphinx", "furo", "myst_parser", "sphinx_copybutton"):
        pytest.importorskip(tool, reason="pip install 'airflow-provider-assistant[docs]'")
    folder = tmp_path_factory.mktemp("docs")
    command = [sys.executable, str(TOOLS / "build_site.py"), str(folder)]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    return folder / "html"


@pytest.mark.nightly
def test_every_page_is_in_the_sidebar(site: Path) -> None:
    places = builder["places_of"]()
    shown = {*pages()} - {ROOT / "README.md", ROOT / "docs" / "index.md"}
    wanted = {places[page.relative_to(ROOT).as_posix()].removesuffix(".md") for page in shown}
    wanted |= {f"examples/{dag.stem}" for dag in (ROOT / "dags").glob("*.py")}
    sidebar = re.search(r'<div class="sidebar-tree">.*?</aside>', (site / "index.html").read_text(), re.DOTALL)
    assert sidebar
    links = set(re.findall(r'href="([^"#]+)"', sidebar[0]))
    assert {f"{page}.html" for page in wanted} | {builder["REPOSITORY"], builder["ISSUES"]} <= links


@pytest.mark.nightly
def test_pages_lead_to_their_source(site: Path) -> None:
    for page, original in {"changes": "CHANGELOG.md", "operate/ui": "docs/operate/ui.md"}.items():
        assert f'href="{builder["REPOSITORY"]}/edit/main/{original}"' in (site / f"{page}.html").read_text()


@pytest.mark.nightly
def test_pages_load_nothing_from_elsewhere(site: Path) -> None:
    loads = re.compile(r"""<(?:script|img|iframe)[^>]+src="(?!data:)(?:\w+:|//)[^"]*"|<link rel="stylesheet"[^>]+//""")
    assert [page.name for page in site.rglob("*.html") if loads.search(page.read_text())] == []
    for style in site.rglob("*.css"):
        assert not re.search(r"""(?:@import|url\()\s*["']?(?:https?:)?//""", style.read_text()), style.name


# Questions of newcomers, and the page that answers.
QUESTIONS = {
    "how many questions per minute": "operate/rate-limiting",
    "how much does it cost, quota left": "operate/rate-limiting",
    "duplicate documents after retry": "operate/ledger",
    "rotate the API key": "operate/security",
    "task is green but nothing changed": "operate/when-something-fails",
    "answers use old content": "load/equal-site",
    "load a folder of markdown": "load/knowledge-sources",
    "crawl a website": "load/knowledge-sources",
    "ask many questions at once": "ask/chat-batch",
    "delete a person's data": "operate/security",
    "gate failed evaluation": "evaluate/evaluate",
    "compare two sites": "evaluate/evaluate",
    "chat batch timed out": "ask/chat-batch",
    "ledger on postgres": "operate/ledger",
    "kubernetes workers": "operate/deploy",
    "self-signed certificate": "start/connection",
    "proxy settings": "start/connection",
    "csv with semicolons": "operate/when-something-fails",
    "row was rejected": "load/load-dataframe",
    "dry run before deleting": "load/equal-site",
    "write answers to a warehouse": "export/warehouse",
    "which questions are rated bad": "export/warehouse",
    "alert when a task fails": "operate/observe",
    "test a DAG without an account": "start/first-dag",
    "multi-turn conversation": "ask/chat-batch",
    "skip drafts and private pages": "load/knowledge-sources",
    "wrong base URL": "operate/when-something-fails",
    "excel files": "load/knowledge-sources",
}


@pytest.mark.nightly
@pytest.mark.promise("pages", "The search of the site finds the page that answers a newcomer's question.")
def test_search_finds_the_page_that_answers(site: Path) -> None:
    node = shutil.which("node")
    if not node:
        pytest.skip("node is not installed")
    command = [node, str(Path(__file__).with_name("search.js")), str(site), *QUESTIONS]
    found = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    assert {question: found[question] for question, page in QUESTIONS.items() if page not in found[question]} == {}


def test_links_follow_their_targets_to_the_site() -> None:
    text = (
        "[a](../SECURITY.md#report), [b](../tests/unit), [c](index.md), `[d](x)`\n\n```text\n[e](../README.md)\n```\n"
    )
    moved = builder["relinked"](text, "docs/index.md", "index.md", builder["places_of"]())
    elsewhere = f"{builder['REPOSITORY']}/blob/main/tests/unit"
    assert moved == (
        f"[a](security.md#report), [b]({elsewhere}), [c](index.md), `[d](x)`\n\n```text\n[e](../README.md)\n```\n"
    )


def test_sidebar_has_the_sections_and_bullets_of_the_page() -> None:
    page = "# Title\n\n- [A](https://example.com/a.md)\n\n## Load\n\n- [B](load/b.md): [c](c.md)\n- [D](api/d.rst)\n"
    assert builder["navigation"](page) == "\n```{toctree}\n:hidden:\n:caption: Load\n\nload/b\napi/d\n```\n"
