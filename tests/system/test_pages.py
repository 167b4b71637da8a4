"""
The pages in Airflow's UI, in a browser: the UI is Airflow's own, the API server is a stub with prepared replies.

Everything that needs no real load is tested here, because a page opens in a second.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from importlib.resources import files
from typing import Any
from urllib.parse import urlsplit

import pytest
from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver import Chrome, Keys
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.ui import WebDriverWait

from airflow_provider_assistant.ui import models as m
from tests.live.chromium import chromium
from tests.live.stub_host import StubHost
from tests.system import pages_data as data

pytestmark = pytest.mark.system

PATIENCE = 30
AXE = files("axe_core_python") / "axe.min.js"
# Rules of WCAG 2.1 AA and of good practice, for what this package renders.
RUN_AXE = """
const done = arguments[arguments.length - 1];
axe.run(".assistant", {resultTypes: ["violations"]}).then(
    (found) => done(found.violations.map((one) => `${one.impact} ${one.id}: ${one.nodes.map((node) => node.html)}`)),
    (error) => done([String(error)]));
"""
# Without loading Airflow's bundle of 7 MB again. A path that is nothing comes first, so that the page starts anew.
NAVIGATE = """
for (const path of ["plugin/none", arguments[0]]) {
    history.pushState({}, "", new URL(path, document.baseURI));
    dispatchEvent(new PopStateEvent("popstate", {state: {}}));
    await new Promise((done) => setTimeout(done, 50));
}
"""


class Pages:
    """The UI in a browser."""

    def __init__(self, driver: Chrome, host: StubHost) -> None:
        self.driver, self.host = driver, host
        self._wait = WebDriverWait(driver, PATIENCE, ignored_exceptions=[StaleElementReferenceException, IndexError])

    def start(self) -> None:
        self.driver.get(f"{self.host.url}plugin/none")
        self._wait.until(lambda driver: driver.execute_script("return Boolean(globalThis.ReactRouterDOM)"))

    def show(self, path: str, replies: dict[str, Any] | None = None, **changes: Any) -> str:
        """Open a page and return its text as soon as all data are there."""
        self.host.reply({**(data.filled() if replies is None else replies), **changes})
        self.driver.execute_script(NAVIGATE, path)
        return self.text()

    def text(self) -> str:
        """Return the text of our part of the page when nothing is loading."""
        ready = "return document.querySelector('.assistant') && !document.querySelector('.assistant .loading')"
        self._wait.until(lambda driver: driver.execute_script(ready), "the page does not finish")
        text = self.driver.execute_script("return document.querySelector('.assistant').innerText")
        return re.sub(r"\n+", "\n", text)

    def until(self, text: str) -> None:
        self._wait.until(lambda _: text in self.text(), f"{text!r} is not on the page")

    def all(self, selector: str) -> list[WebElement]:
        return self.driver.find_elements(By.CSS_SELECTOR, f".assistant :is({selector})")

    def click(self, selector: str) -> None:
        """Click the first element as soon as the page has stopped to replace it."""
        self._wait.until(lambda _: (self.all(selector)[0].click(), True)[1])

    def button(self, text: str) -> WebElement:
        [found] = [one for one in self.all("button, a, summary") if one.text.strip() == text]
        return found

    def theme(self, name: str) -> None:
        """Switch the colour mode as Airflow's own menu does."""
        changed = (
            "localStorage.theme = arguments[0];"
            "dispatchEvent(new StorageEvent('storage', {key: 'theme', newValue: arguments[0]}))"
        )
        self.driver.execute_script(changed, name)
        self._wait.until(lambda driver: name in driver.execute_script("return document.documentElement.className"))

    def module(self, name: str, expression: str, *arguments: Any) -> Any:
        """Evaluate an expression with the module ``m`` and the list ``a``."""
        script = (
            "const done = arguments[2];"
            "import(new URL(`assistant/static/${arguments[0]}`, document.baseURI).href)"
            f".then((m) => {{ const a = arguments[1]; done({expression}); }}, (error) => done(String(error)))"
        )
        return self.driver.execute_async_script(script, name, list(arguments))

    def errors(self) -> list[str]:
        """Return what the console says, but for replies that the stub does not have."""
        said = [entry["message"] for entry in self.driver.get_log("browser") if entry["level"] == "SEVERE"]
        return [one for one in said if "/assistant/" in one or "Failed to load resource" not in one]


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chrome]:
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("NO_PROXY", "127.0.0.1,localhost")
        environment.setenv("no_proxy", "127.0.0.1,localhost")
        driver = chromium(tmp_path_factory.mktemp("chromium"), "--window-size=1440,1500")
    yield driver
    driver.quit()


@pytest.fixture(scope="module")
def opened(driver: Chrome) -> Iterator[Pages]:
    with StubHost() as host:
        pages = Pages(driver, host)
        pages.start()
        yield pages


@pytest.fixture
def pages(opened: Pages) -> Iterator[Pages]:
    """Airflow's UI, which must say nothing on the console."""
    if not opened.driver.current_url.startswith(opened.host.url):
        opened.start()
    opened.errors()
    yield opened
    assert opened.errors() == []


# -- what is shown ---------------------------------------------------------------------------------------------


def test_the_page_answers_three_questions(pages: Pages) -> None:
    text = pages.show("plugin/assistant")

    assert "Did the last loads work?\n✕\nNo\n1 of 2 sources did not load.\nkb.load_faq failed 5 hours ago" in text
    assert "What needs me?\n!\n6 things" in text
    for need in (
        "12 ambiguous entries to settle",
        "88 rejected rows of kb.load_faq",
        "35 outdated documents to delete",
    ):
        assert need in text
    assert "Is the assistant worse than last week?\n✕\nYes\ngolden_set: 82.4% passed, 90.3% a week before" in text
    assert "1 to 13 of 5,000 loads" in text


def test_a_quiet_night(pages: Pages) -> None:
    healthy = m.Evaluations(problem=None, names=["golden_set"], rows=data.evaluations().rows[:-1])
    text = pages.show(
        "plugin/assistant", summary=data.quiet(), evaluations=healthy, limits=m.Limits(problem=None, rows=[])
    )

    assert "Yes\nAll 2 sources were loaded; the latest 5 hours ago. 11,712 documents were created" in text
    assert "What needs me?\n✓\nNothing" in text
    assert "worse than last week?\n✓\nNo\n" in text


def test_a_new_installation_says_what_is_missing(pages: Pages) -> None:
    problem = m.Problem(code="no_ledger", text="This API server has no ledger. Set [assistant] ledger_conn_id.")
    lake = m.Problem(code="no_lake", text="This API server has no lake. Set [assistant] lake.")
    nothing = dict.fromkeys(("loads_day", "failed_day", "created_day", "requests_day", "throttled_day", "ambiguous",
                             "ambiguous_since", "superseded", "stale", "open_requests"))  # fmt: skip
    replies = {
        "context": data.context(problem=problem, sites=[], ledgers=[], lake=None),
        "summary": data.summary(problem=problem, sources=[], gates=[], lake_problem=lake, **nothing),
        **{name: data.paged([], problem=problem) for name in ("loads", "ambiguous", "superseded", "requests")},
        "documents": m.Documents(problem=problem, days=[]),
        "evaluations": m.Evaluations(problem=lake, names=[], rows=[]),
        "statistics": m.Statistics(problem=lake, metrics=[], series=[], feedback=[]),
        "limits": m.Limits(problem=lake, rows=[]),
    }
    for view, sentence in {"loads": problem, "settle": problem, "quality": lake, "usage": lake}.items():
        text = pages.show(f"plugin/assistant?view={view}", replies)
        assert text.count("Unknown") == 3
        assert text.count(sentence.text) >= 2


EMPTY: dict[str, Any] = {
    "summary": data.summary(sources=[], gates=[], ambiguous=0, ambiguous_since=None, superseded=0, stale=None),
    **{name: data.paged([]) for name in ("loads", "ambiguous", "superseded", "requests")},
    "documents": m.Documents(problem=None, days=[]),
    "evaluations": m.Evaluations(problem=None, names=[], rows=[]),
    "statistics": m.Statistics(problem=None, metrics=[], series=[], feedback=[]),
    "limits": m.Limits(problem=None, rows=[]),
}


@pytest.mark.parametrize(
    ("view", "sentences"),
    [
        ("loads", ["Nothing loaded yet", "No load has run yet.", "No document has been created yet.", "Not evaluated"]),
        ("settle", ["the outcome of every request is known", "No chat request waits for its answer."]),
        ("quality", ["The lake has no evaluation."]),
        ("usage", ["The lake has no limits.", "The lake has no statistics."]),
    ],
)
def test_an_empty_ledger(pages: Pages, view: str, sentences: list[str]) -> None:
    text = pages.show(f"plugin/assistant?view={view}", **EMPTY)

    assert not [sentence for sentence in sentences if sentence not in text]


@pytest.mark.parametrize(
    ("status", "sentence"),
    [
        (401, "Your session has ended. Reload the page to log in again."),
        (403, "You do not have the rights"),
        (500, "The API server failed with status 500."),
    ],
)
def test_a_refused_or_failed_request_is_a_sentence(opened: Pages, status: int, sentence: str) -> None:
    refused = (status, {"detail": "canary"})
    for path in ("plugin/assistant", data.PAGES["tab-load_faq"]):
        text = opened.show(path, dict.fromkeys(data.filled(), refused))
        assert sentence in text
        assert "canary" not in text
    opened.host.reply(data.filled())
    opened.button("Try again").click()
    opened.until("Try 2 of 2 failed")


def test_one_failed_part_leaves_the_others(opened: Pages) -> None:
    text = opened.show("plugin/assistant?view=usage", statistics=(500, {}))

    assert "The API server failed with status 500." in text
    assert "90,210" in text


def test_the_tab_of_a_load(pages: Pages) -> None:
    text = pages.show(data.PAGES["tab-load_faq"])

    assert "Try 2 of 2 failed" in text
    assert data.BAD.error in text
    parts = {
        one.find_element(By.TAG_NAME, "dt").text: one.find_element(By.TAG_NAME, "dd").text
        for one in pages.all(".legend div")
    }
    numbers = {name: int(count.replace(",", "")) for name, count in parts.items()}
    assert numbers.pop("= rows") == sum(numbers.values()) == 12_000
    assert "88" in text
    assert "question is empty" in text
    bar = pages.all(".chart svg[role=img]")[0].get_attribute("aria-label")
    assert bar == "Rows by outcome: 12,000 rows. 11,700 created, 200 unchanged, 88 rejected, 12 ambiguous"
    [log] = [link.get_attribute("href") for link in pages.all(".links a")]
    assert log == "https://storage.example.com/requests.jsonl"
    assert pages.button("Download as CSV").get_attribute("href").endswith("/load_faq/-1/findings.csv")


def test_the_tab_of_other_tasks(pages: Pages) -> None:
    batch = pages.show(data.PAGES["tab-ask"])
    assert "195 of 202 questions answered" in batch
    assert "median 2.9 s, p95 6.7 s, p99 8.4 s" in batch
    names = [chart.get_attribute("aria-label") for chart in pages.all(".chart svg[role=img]")]
    assert names[1] == "Latency: histogram of 195 answers from 0 to 10 seconds. Most are from 2 to 3 seconds."
    assert "The gate failed" in pages.show(data.PAGES["tab-judge"])
    assert "s3://lake/statistics/ds=2026-11-22" in pages.show(data.PAGES["tab-export"])
    assert "This is not a task of the Assistant provider" in pages.show(data.PAGES["tab-bash"])
    path = f"tasks/kb/{data.RUN}/load_faq/-1"
    text = pages.show(data.PAGES["tab-load_faq"], **{path: data.task_reply("unknown", tries=[])})
    assert "This task has not run yet." in text
    text = pages.show(data.PAGES["tab-load_faq"], **{path: data.task_reply(is_mapped_summary=True)})
    assert "Open one of its task instances" in text


def test_hostile_texts_are_text(pages: Pages) -> None:
    evil = data.HOSTILE
    load = data.load(outcome="failed", source=evil, site_id=evil, error=evil)
    task = data.task().model_copy(update={"task_id": evil, "run_id": evil})
    link = m.TaskLink(name=evil, href="javascript:globalThis.hacked=1")
    replies = {
        "summary": data.summary(sources=[m.SourceState(load=load, due=False)]),
        "loads": m.Loads(**data.paged([load.model_copy(update={"task": task})])),
        "ambiguous": m.Entries(**data.paged([data.entry(1, label=evil, error=evil, source=evil)])),
        "evaluations": m.Evaluations(problem=None, names=[evil], rows=[data.evaluation(1, name=evil, worse=[evil], means={evil: 0.5}, report="//evil.example.com")]),
        "limits": m.Limits(problem=m.Problem(code="lake_unreadable", text=evil), rows=[]),
        f"tasks/kb/{data.RUN}/load_faq/-1": data.task_reply(tries=[load], links=[link]),
        f"tasks/kb/{data.RUN}/load_faq/-1/findings": data.findings(rows=[m.Finding(kind=evil, row=1, key=evil, reason=evil, document_ids=[evil])], kinds=[m.FindingsKind(kind=evil, count=1)]),
    }  # fmt: skip
    for page in ("page-loads", "page-settle", "page-quality", "page-usage", "tab-load_faq"):
        text = pages.show(data.PAGES[page], **replies)
        assert evil in text
    hrefs = [one.get_attribute("href") for one in pages.all("a")]
    assert not [href for href in hrefs if not href.startswith(pages.host.url)]
    assert not pages.driver.execute_script("return globalThis.hacked")
    assert not pages.all("img, script, [onerror]")


def test_times_are_the_viewers_and_utc_is_in_the_title(pages: Pages) -> None:
    try:
        pages.driver.execute_script("localStorage.timezone = JSON.stringify('Asia/Tokyo')")
        pages.show("plugin/assistant")
        started = pages.all("tbody time")[0]
        assert started.text == "Nov 22, 2026, 10:00 AM"
        assert started.get_attribute("title") == "2026-11-22 01:00:00 UTC"
    finally:
        pages.driver.execute_script("localStorage.removeItem('timezone')")


def test_pages_and_filters_are_in_the_query_and_nothing_else_is(pages: Pages) -> None:
    pages.show("plugin/assistant")
    pages.button("Next").click()
    pages.until("1 to 13 of")
    [outcome, source] = pages.all(".section select")[:2]
    outcome.send_keys("failed")
    source.send_keys("kb.upload_guides")
    pages.until("1 to 13 of")

    queries = [query for path, query, _ in pages.host.requests if path == "loads"]
    assert queries[0] == "offset=0"
    assert queries[1] == "offset=25"
    assert queries[-1] == "source=kb.upload_guides&outcome=failed&offset=0"


def test_the_panel_of_the_dashboard(pages: Pages) -> None:
    pages.show("")

    figures = [one.text.split("\n") for one in pages.all(".figure")]
    assert figures == [
        ["12", "ambiguous entries"],
        ["failed", "last evaluation, golden_set"],
        ["1%", "of 11,900 requests got 429 in a day"],
    ]
    pages.all(".figure")[0].click()
    pages.until("Superseded documents")
    assert pages.driver.switch_to.active_element.text == "Ambiguous entries"
    assert pages.driver.current_url == f"{pages.host.url}plugin/assistant?view=settle"


def test_a_load_leads_to_its_task_inside_the_router(driver: Chrome) -> None:
    """Airflow has a path prefix here, and nothing is requested outside it."""
    with StubHost("/team-a/airflow/") as host:
        pages = Pages(driver, host)
        pages.start()
        pages.show("plugin/assistant")
        driver.execute_script("globalThis.same = true")
        pages.click("tbody a")
        WebDriverWait(driver, PATIENCE).until(lambda driver: "/tasks/load_faq" in driver.current_url)

        assert urlsplit(driver.current_url).path.startswith("/team-a/airflow/dags/kb/runs/")
        assert driver.execute_script("return globalThis.same")
        pages.show(data.PAGES["tab-judge"])
        [report] = [one.get_attribute("href") for one in pages.all("a") if one.text == "Open the report"]
        assert report == f"{host.url}assistant/reports/evaluation/scheduled__1/judge/-1"
        assert not [message for message in pages.errors() if "/assistant/" in message]


# -- settling --------------------------------------------------------------------------------------------------


def test_a_viewer_sees_no_button(pages: Pages) -> None:
    rows = [data.entry(at, may_settle=False) for at in range(3)]
    text = pages.show("plugin/assistant?view=settle", ambiguous=m.Entries(**data.paged(rows)),
                      superseded=m.SupersededPage(**data.paged([])))  # fmt: skip

    assert "sku=4712" in text
    assert not pages.all(".view input")
    assert [one.text for one in pages.all(".view button")] == []


def test_settling_asks_first_and_names_the_rows_in_the_body_only(pages: Pages) -> None:
    pages.show("plugin/assistant?view=settle")
    boxes = pages.all("input[type=checkbox]")
    assert boxes[0].get_attribute("aria-label") == "Select sku=4711"
    boxes[0].click()
    boxes[1].send_keys(Keys.SPACE)
    pages.button("Mark 2 as created").click()
    pages.until("2 entries become created. The next load does not send these rows")
    assert "entry-0: The next load treats the row as unchanged" in pages.text()
    assert pages.driver.switch_to.active_element.text == "Cancel"

    pages.driver.switch_to.active_element.send_keys(Keys.ESCAPE)
    WebDriverWait(pages.driver, PATIENCE).until(lambda _: not pages.all("dialog"))
    assert "settle" not in [path for path, _, _ in pages.host.requests]
    assert pages.driver.switch_to.active_element.text == "Mark 2 as created"

    pages.button("Mark 2 as not created").click()
    pages.until("2 entries become not created")
    pages.button("Mark 2 entries as not created").click()
    WebDriverWait(pages.driver, PATIENCE).until(lambda _: not pages.all("dialog"))
    pages.until("2 entries become not created")

    sent = [(query, body) for path, query, body in pages.host.requests if path == "settle"]
    assert sent == [("", {"ledger": "", "outcome": "not_created", "ids": ["entry-0", "entry-1"]})]
    assert m.SettleRequest.model_validate(sent[0][1])
    assert pages.driver.switch_to.active_element.get_attribute("role") == "status"
    assert [path for path, _, _ in pages.host.requests].count("summary") == 2


def test_settling_that_is_refused_stays_in_the_dialog(opened: Pages) -> None:
    opened.show("plugin/assistant?view=settle", settle=(403, {"detail": "Forbidden"}))
    opened.button("Select all 6 on this page").click()
    opened.button("Mark 6 as created").click()
    opened.until("6 entries become created")
    opened.button("Mark 6 entries as created").click()
    opened.until("You do not have the rights")
    opened.button("Cancel").click()


def test_stale_findings_are_marked_as_deleted(pages: Pages) -> None:
    path = f"tasks/kb/{data.RUN}/load_faq/-1/findings"
    rows = [
        m.Finding(kind="stale", row=None, key=f"sku={at}", reason="gone", document_ids=ids)
        for at, ids in ((1, ["doc-1"]), (2, []))
    ]
    pages.show(data.PAGES["tab-load_faq"], **{path: data.findings(rows=rows)})
    pages.all(".section select")[0].send_keys("stale")
    pages.until("Mark these 2 as deleted on the site")
    pages.button("Mark these 2 as deleted on the site").click()
    pages.until("Mark as deleted on the site?")

    [body] = [body for path, _, body in pages.host.requests if path == "settle/preview"]
    request = m.SettleRequest.model_validate(body)
    assert (request.dag_id, request.site_id, request.document_ids, request.labels) == (
        "kb",
        data.SITE,
        ["doc-1"],
        ["sku=2"],
    )
    pages.button("Cancel").click()


# -- access ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing(pages: Pages, theme: str) -> None:
    pages.theme(theme)
    pages.driver.execute_script(AXE.read_text(encoding="utf-8"))
    found = {}
    for name, path in data.PAGES.items():
        pages.show(path)
        for summary in pages.all("summary"):
            summary.click()
        found[name] = pages.driver.execute_async_script(RUN_AXE)
    pages.show("plugin/assistant?view=settle")
    pages.button("Select all 6 on this page").click()
    pages.button("Mark 6 as created").click()
    pages.until("6 entries become created")
    found["dialog"] = pages.driver.execute_async_script(RUN_AXE)
    pages.button("Cancel").click()
    pages.show("plugin/assistant", dict.fromkeys(data.filled(), (500, {})))
    found["failed"] = pages.driver.execute_async_script(RUN_AXE)
    pages.show("")
    found["panel"] = pages.driver.execute_async_script(RUN_AXE)
    pages.errors()  # the replies with status 500

    assert {name: problems for name, problems in found.items() if problems} == {}


def test_everything_can_be_reached_with_the_keyboard(pages: Pages) -> None:
    pages.show("plugin/assistant?view=settle")
    pages.driver.execute_script("document.querySelector('.assistant select').focus()")
    pages.driver.switch_to.active_element.send_keys(Keys.TAB)
    reached = set()
    for _ in range(60):
        active = pages.driver.switch_to.active_element
        reached.add(active.get_attribute("aria-label") or active.text)
        outline = pages.driver.execute_script("return getComputedStyle(arguments[0]).outlineStyle", active)
        assert outline != "none", active.get_attribute("outerHTML")
        active.send_keys(Keys.TAB)
        if not pages.driver.execute_script("return Boolean(document.activeElement.closest('.assistant'))"):
            break
    wanted = {
        "12 ambiguous entries to settle",
        "Loads",
        "Select all 6 on this page",
        "Select sku=4711",
        "Ambiguous entries",
        "kb.load_faq",
    }
    assert wanted <= reached


# -- pure functions --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("m.number(12345.678)", "12,345.68"),
        ("m.number(null)", "–"),
        ("m.percent(0.8242)", "82.4%"),
        ("m.plural(1, 'row')", "1 row"),
        ("m.plural(0, 'entry', 'entries')", "0 entries"),
        ("m.total(10000, true)", "10,000+"),
        ("[m.age(0), m.age(59), m.age(3600), m.age(200000)]", ["0 seconds", "59 seconds", "1 hour", "2 days"]),
        ("[m.duration(0.4249), m.duration(59.9), m.duration(280.5), m.duration(7500), m.duration(null)]",
         ["0.425 s", "59.9 s", "4 min 40 s", "2 h 5 min", "–"]),
        ("m.day('2026-11-22')", "Nov 22"),
        ("m.utc('2026-11-22T06:30:00+01:00')", "2026-11-22 05:30:00 UTC"),
        ("[m.ticks(0, 1), m.ticks(0, 0), m.ticks(0, 97), m.ticks(-3, 7)]",
         [[0, 0.25, 0.5, 0.75, 1], [0, 0.25], [0, 25, 50, 75, 100], [-5, -2.5, 0, 2.5, 5, 7.5]]),
        ("m.widths([9999, 1, 0], 100)", [96, 4, 0]),
        ("m.widths([0, 0], 100)", [0, 0]),
    ],
)  # fmt: skip
def test_format(pages: Pages, expression: str, expected: Any) -> None:
    assert pages.module("format.mjs", expression) == expected


def judged(pages: Pages, rows: list[m.Evaluation]) -> tuple[str, str]:
    """The answer about last week, and its first line."""
    reply = m.Evaluations(problem=None, names=[], rows=rows).model_dump(mode="json")
    answer = pages.module("answers.mjs", "m.worseAnswer(a[0])", reply)
    return answer["word"], f"{answer['items'][0]['text']}. {answer['items'][0]['detail']}"


def test_worse_than_last_week(pages: Pages) -> None:
    def good(number: int, rate: float | None, **changes: Any) -> m.Evaluation:
        return data.evaluation(number, pass_rate=rate, verdict="passed", worse=[], **changes)

    assert judged(pages, [good(8, 0.9), good(3, 0.5), good(1, 0.91)]) == (
        "No",
        "golden_set: 91% passed, 90% a week before. ",
    )
    word, text = judged(pages, [good(7, 0.9), good(0, 0.89)])
    assert word == "No"
    assert "Chance explains" in text
    assert judged(pages, [good(7, 0.9), good(0, 0.8)])[0] == "Yes"
    assert judged(pages, [good(7, 0.9, questions=20), good(0, 0.8, questions=20)])[0] == "No"
    assert judged(pages, [good(2, 0.9), good(0, 0.9)])[0] == "No comparison"
    assert judged(pages, [good(7, None), good(0, None, coverage=0.5)])[0] == "Yes"
    assert judged(pages, [good(7, 0.9), data.evaluation(0, pass_rate=0.9, verdict="failed")])[0] == "Yes"
    assert (
        judged(pages, [good(7, 0.9), data.evaluation(0, pass_rate=0.9, verdict="passed", worse=["rouge_l"])])[0]
        == "Perhaps"
    )


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({}, "Yes"),
        ({"outcome": "unfinished"}, "No"),
        ({"outcome": "running"}, "Still running"),
        ({"outcome": "deferred"}, "Still running"),
    ],
)
def test_did_the_loads_work(pages: Pages, changes: dict[str, Any], word: str) -> None:
    reply = data.summary(sources=[m.SourceState(load=data.load(**changes), due=False)]).model_dump(mode="json")

    assert pages.module("answers.mjs", "m.loadAnswer(a[0])", reply)["word"] == word


def test_a_load_that_did_not_run_is_not_a_success(pages: Pages) -> None:
    reply = data.summary(sources=[m.SourceState(load=data.load(2), due=True)]).model_dump(mode="json")
    answer = pages.module("answers.mjs", "m.loadAnswer(a[0])", reply)

    assert (answer["word"], answer["items"][0]["text"]) == ("Not all of it", "kb.load_faq last ran 2 days ago")


@pytest.mark.parametrize(
    ("href", "url"),
    [
        ("/assistant/reports/a", "assistant/reports/a"),
        ("https://example.com/x", "https://example.com/x"),
        ("javascript:alert(1)", None),
        ("//example.com", None),
        ("file:///etc/passwd", None),
        (None, None),
    ],
)
def test_links_of_the_server(pages: Pages, href: str | None, url: str | None) -> None:
    expected = f"{pages.host.url}{url}" if url and url.startswith("assistant") else url

    assert pages.module("core.mjs", "m.linkUrl(a[0])", href) == expected


def test_the_fixtures_are_what_the_server_may_send() -> None:
    """Replies that are built from models are valid; those of paged rows are checked here."""
    for name, model in {
        "loads": m.Loads,
        "ambiguous": m.Entries,
        "superseded": m.SupersededPage,
        "requests": m.ChatRequests,
    }.items():
        assert json.loads(model.model_validate(data.filled()[name], from_attributes=True).model_dump_json())["rows"]
