"""The site builds without warnings, is complete, and loads nothing from other hosts."""

from __future__ import annotations

import mimetypes
import re
import runpy
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from html.parser import HTMLParser
from http.server import BaseHTTPRequestHandler
from pathlib import Path, PurePosixPath
from urllib.parse import unquote, urlsplit

import pytest
from selenium.webdriver import ActionChains, Chrome, Keys
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

from tests.docs.pages import ROOT, pages
from tests.docs.questions import QUESTIONS
from tests.live.chromium import chromium
from tests.live.pages import AXE
from tests.servers import LocalServer, send

TOOLS = ROOT / "docs" / "site"
RUN_AXE = """
const done = arguments[0];
const text = (one) => `${one.impact} ${one.id}: ${one.nodes.map((node) => node.html)}`;
axe.run({resultTypes: ["violations"]}).then(
    (found) => done(found.violations.map(text)),
    (error) => done([String(error)]));
"""
# Ask the search page's own function, and return the addresses of the first pages for each query.
FIND = """
const [queries, done] = arguments;
const answer = async ({find}) => {
    const pages = [];
    for (const query of queries) {
        const found = await find(query);
        const first = [...found.all, ...found.some].slice(0, 3);
        pages.push((await Promise.all(first.map((one) => one.data()))).map((page) => page.url));
    }
    return pages;
};
const module = new URL("_static/search.mjs", document.baseURI).href;
import(module).then(answer).then(done, (error) => done(String(error)));
"""
builder = runpy.run_path(str(TOOLS / "build_site.py"))
tasks = runpy.run_path(str(TOOLS / "parameters.py"))["tasks"]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site."""
    for tool in ("sphinx", "furo", "myst_parser", "pagefind", "sphinx_copybutton"):
        pytest.importorskip(tool, reason="pip install 'airflow-provider-assistant[docs]'")
    folder = tmp_path_factory.mktemp("docs")
    command = [sys.executable, str(TOOLS / "build_site.py"), str(folder)]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stderr
    return folder / "html"


@dataclass
class Page(HTMLParser):
    """The links and the anchors of a page."""

    path: Path
    links: list[str] = field(default_factory=list)
    loads: list[str] = field(default_factory=list)
    anchors: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        super().__init__()
        self.feed(self.path.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.anchors |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        elif tag == "link" and given.get("rel") not in {"index", "search", "next", "prev"}:
            self.loads.append(given["href"])
        elif "src" in given:
            self.loads.append(given["src"])


@cache
def read(path: Path) -> Page:
    return Page(path)


def built(site: Path) -> list[Page]:
    return [read(path) for path in sorted(site.rglob("*.html"))]


@pytest.mark.slow
def test_every_page_is_in_the_navigation(site: Path) -> None:
    places = builder["places_of"]()
    shown = {*pages()} - {ROOT / "README.md"}
    wanted = {places[page.relative_to(ROOT).as_posix()].removesuffix(".md") for page in shown}
    wanted |= {f"examples/{dag.stem}" for dag in (ROOT / "dags").glob("*.py")}
    sidebar = re.search(r'<div class="sidebar-tree">.*?</aside>', (site / "index.html").read_text(), re.DOTALL)
    assert sidebar
    tree = set(re.findall(r'href="([^"#]+)\.html"', sidebar[0]))
    # Links to the folder show the start page.
    assert wanted - {"index"} <= tree
    assert len(wanted) > 40


@pytest.mark.slow
def test_examples_are_described_and_drawn(site: Path) -> None:
    page = (site / "examples" / "index.html").read_text()
    text = re.sub(r"<[^>]+>", "", page)
    for dag in (ROOT / "dags").glob("*.py"):
        assert re.search(rf"^{dag.stem}\S*\n+[A-Z].+\.$", text, re.MULTILINE), dag.stem
        (picture,) = set(re.findall(rf'src="([^"]*/{dag.stem}\.svg)"', page))
        assert "<text" in (site / "examples" / picture).read_text()


@pytest.mark.slow
def test_sidebar_links_to_source_and_issues(site: Path) -> None:
    assert {builder["REPOSITORY"], builder["ISSUES"]} <= set(read(site / "index.html").links)


@pytest.mark.slow
def test_pages_lead_to_their_source(site: Path) -> None:
    edit = f"{builder['REPOSITORY']}/edit/main"
    originals = {"changes": "CHANGELOG.md", "operate/ui": "docs/operate/ui.md", "api/hook": ""}
    originals["examples/assistant_smoke"] = "dags/assistant_smoke.py"
    for page, original in originals.items():
        links = [link for link in read(site / f"{page}.html").links if link.startswith(edit)]
        assert links == ([f"{edit}/{original}"] if original else []), page


class Server(LocalServer):
    """The site below a path, as its host serves it."""

    def __init__(self, site: Path) -> None:
        super().__init__()
        self.site = site

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        path = urlsplit(request.path).path.removeprefix("/en/stable/")
        file = self.site / path
        content_type = mimetypes.guess_type(path)[0] or "application/octet-stream"
        if file.is_file():
            send(request, 200, file.read_bytes(), {"Content-Type": content_type})
        else:
            send(request, 404, b"", {})


@pytest.fixture(scope="module")
def search_page(site: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chrome]:
    """The search page in a browser."""
    home = tmp_path_factory.mktemp("browser")
    with Server(site) as server, chromium(home, "--window-size=1280,1000") as browser:
        browser.get(f"http://{server.host}/en/stable/search.html")
        yield browser


@pytest.mark.slow
def test_search_finds_the_page_that_answers(search_page: Chrome) -> None:
    queries = [query for _, spellings in QUESTIONS for query in spellings]
    assert len(queries) >= 70
    found = search_page.execute_async_script(FIND, queries)
    assert isinstance(found, list), found
    first = dict(zip(queries, found, strict=True))
    missed = {
        query: first[query]
        for pages, spellings in QUESTIONS
        for query in spellings
        if not pages & {PurePosixPath(url).stem for url in first[query]}
    }
    assert not missed, "\n".join(f"{query}: {urls}" for query, urls in missed.items())


@pytest.mark.slow
def test_search_page_is_used_with_the_keyboard(search_page: Chrome) -> None:
    wait = WebDriverWait(search_page, 20, 0.05)

    def until(status: str) -> None:
        found = (By.CSS_SELECTOR, ".search-status")
        wait.until(lambda page: re.fullmatch(status, page.find_element(*found).text), status)

    search_page.switch_to.active_element.send_keys("PgBouncer semicolons")
    until(r"Pages with all of these words: 0\. With some of them: [1-9]\.")
    search_page.execute_script(AXE.read_text())
    for theme in ("light", "dark"):
        search_page.execute_script("document.body.dataset.theme = arguments[0]", theme)
        assert search_page.execute_async_script(RUN_AXE) == [], theme
    search_page.switch_to.active_element.send_keys(Keys.CONTROL, "a")
    search_page.switch_to.active_element.send_keys("PgBouncer")
    until(r"[1-9] pages?\.")
    assert search_page.current_url.endswith("?q=PgBouncer")
    for _ in range(2):
        # The page, then its best section.
        ActionChains(search_page).send_keys(Keys.TAB).perform()
    search_page.switch_to.active_element.send_keys(Keys.ENTER)
    wait.until(lambda page: page.current_url.endswith("ledger-on-postgresql.html#pgbouncer"))
    search_page.back()
    until(r"[1-9] pages?\.")
    assert not [line for line in search_page.get_log("browser") if "favicon" not in line["message"]]


@pytest.mark.slow
def test_links_and_their_anchors_exist(site: Path) -> None:
    broken = []
    for page in built(site):
        for link in (*page.links, *page.loads):
            if urlsplit(link).scheme:
                continue
            path, _, anchor = unquote(link).partition("#")
            target = (page.path.parent / path.partition("?")[0]).resolve() if path else page.path
            if not target.is_file():
                broken.append(f"{page.path.relative_to(site)}: {link}")
            elif anchor and target.suffix == ".html" and anchor not in read(target).anchors:
                broken.append(f"{page.path.relative_to(site)}: {link} has no such anchor")
    assert not broken, "\n".join(broken)


@pytest.mark.slow
def test_pages_load_nothing_from_elsewhere(site: Path) -> None:
    outside = [(page.path.name, load) for page in built(site) for load in page.loads if re.match(r"\w+:|//", load)]
    assert not [found for found in outside if not found[1].startswith("data:")]
    for style in site.rglob("*.css"):
        assert not re.search(r"""(?:@import|url\()\s*["']?(?:https?:)?//""", style.read_text()), style.name


@pytest.mark.slow
def test_a_class_for_dags_has_one_reference(site: Path) -> None:
    reference = [page for page in built(site) if page.path.is_relative_to(site / "reference" / "operators")]
    python = {anchor for page in built(site) if page.path.parent.name == "api" for anchor in page.anchors}
    headings = {anchor for page in reference for anchor in page.anchors}
    assert len(tasks()) > 15
    assert {name.lower() for name in tasks()} <= headings
    assert not [anchor for anchor in python if anchor.rpartition(".")[2] in tasks()]


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


def test_picture_shows_the_layers_that_are_enforced() -> None:
    layers = runpy.run_path(str(TOOLS / "layers.py"))
    assert layers["PICTURE"].read_text() == layers["drawn"](), "python docs/site/layers.py updates it"
    assert all(f">{package}<" in layers["drawn"]() for layer in layers["layers"]() for package in layer)
