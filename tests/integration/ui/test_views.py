"""What the pages in Airflow's UI show in every state."""

from __future__ import annotations

import time
from typing import Any
from urllib.parse import urlsplit

import pytest
from selenium.webdriver import Keys
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import Select

from airflow_provider_assistant.ui import models as m
from airflow_provider_assistant.ui import task_models as tasks
from airflow_provider_assistant.ui import trend_models as trends
from tests.integration.ui import data
from tests.integration.ui.conftest import StubPages

pytestmark = pytest.mark.system

LISTS = ("loads", *(name for name in data.filled() if name.startswith("entries/")))


@pytest.mark.promise(
    "pages",
    "The page says whether the last loads worked, what needs a person, and whether the assistant got worse.",
)
def test_the_page_answers_three_questions(pages: StubPages) -> None:
    pages.show("plugin/assistant")
    text = pages.text()

    assert "Did the last loads work?\n✕\nNo\n1 of 2 sources did not load.\nkb.load_faq failed 5 hours ago" in text
    assert "What needs me?\n!\n7 things" in text
    for need in (
        "12 ambiguous entries to settle",
        "88 rejected rows of kb.load_faq",
        "6 documents not in use",
        "31 superseded documents to delete",
        "4 stale documents to delete",
    ):
        assert need in text
    assert "Is the assistant worse than last week?\n✕\nYes\ngolden_set: 82.4% passed, 90.3% a week before" in text
    assert "1 to 13 of 5,000 loads" in text


def test_a_quiet_night(pages: StubPages) -> None:
    healthy = trends.Evaluations(problem=None, names=["golden_set"], rows=data.evaluations().rows[:-1])
    text = pages.show("plugin/assistant", summary=data.quiet(), evaluations=healthy)

    assert "Yes\nAll 2 sources were loaded; the latest 5 hours ago. 11,712 documents were created" in text
    assert "What needs me?\n✓\nNothing" in text
    assert "worse than last week?\n✓\nNo\n" in text


def test_a_new_installation_says_what_is_missing(pages: StubPages) -> None:
    problem = m.Problem(code="no_ledger", text="This API server has no ledger. Set [assistant] ledger_conn_id.")
    lake = m.Problem(code="no_lake", text="This API server has no lake. Set [assistant] lake.")
    nothing = {"created_day": None, "lists": {}, "unresolved_since": None}
    replies = {
        "context": data.context(problem=problem, sites=[]),
        "summary": data.summary(problem=problem, sources=[], gates=[], lake_problem=lake, **nothing),
        **{name: data.paged([], problem=problem) for name in LISTS},
        "documents": m.Documents(problem=problem, days=[]),
        "evaluations": trends.Evaluations(problem=lake, names=[], rows=[]),
    }
    for view, sentence in {"loads": problem, "settle": problem, "quality": lake}.items():
        text = pages.show(f"plugin/assistant?view={view}", replies)
        assert text.count("Unknown") == 3
        # In a card and in the view, and not in each of its sections.
        assert text.count(sentence.text) == 2


EMPTY: dict[str, Any] = {
    "summary": data.summary(sources=[], gates=[], lists={}, unresolved_since=None),
    **{name: data.paged([]) for name in LISTS},
    "documents": m.Documents(problem=None, days=[]),
    "evaluations": trends.Evaluations(problem=None, names=[], rows=[]),
}


@pytest.mark.parametrize(
    ("view", "sentences"),
    [
        ("loads", ["Nothing loaded yet", "No load has run yet.", "No document has been created yet.", "Not evaluated"]),
        ("settle", ["the outcome of every request is known", "No chat request waits for its answer."]),
        ("quality", ["The lake has no evaluation."]),
    ],
)
def test_an_empty_ledger(pages: StubPages, view: str, sentences: list[str]) -> None:
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
def test_a_refused_or_failed_request_is_a_sentence(opened: StubPages, status: int, sentence: str) -> None:
    refused = (status, {"detail": "canary"})
    for path in ("plugin/assistant", data.PAGES["tab-load_faq"]):
        text = opened.show(path, dict.fromkeys(data.filled(), refused))
        assert sentence in text
        assert "canary" not in text
    opened.host.reply(data.filled())
    opened.button("Try again").click()
    opened.until("Try 2 of 2 failed")


def test_one_failed_part_leaves_the_others(opened: StubPages) -> None:
    text = opened.show("plugin/assistant?view=settle", **{"entries/stale": (500, {})})

    assert "The API server failed with status 500." in text
    assert "sku=4711" in text


def test_the_tab_of_a_load(pages: StubPages) -> None:
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
    assert "6 of the created documents are not in use" in text
    bar = pages.all(".chart svg[role=img]")[0].get_attribute("aria-label")
    assert bar == "Rows by outcome: 12,000 rows. 11,700 created, 200 unchanged, 88 rejected, 12 ambiguous"
    assert pages.links()["Download as CSV"].endswith("/load_faq/-1/findings.csv")


def test_the_tab_of_other_tasks(pages: StubPages) -> None:
    batch = pages.show(data.PAGES["tab-ask"])
    assert "195 of 200 questions answered" in batch
    assert "median 2.9 s, p95 6.7 s, p99 8.4 s, measured for 195 answers." in batch
    assert "12 answers have low confidence." in batch
    names = [chart.get_attribute("aria-label") for chart in pages.all(".chart svg[role=img]")]
    assert names[1] == "Latency: histogram of 195 answers from 0 to 10 seconds. Most are from 2 to 3 seconds."
    assert "The gate failed" in pages.show(data.PAGES["tab-judge"])
    assert "s3://lake/statistics/ds=2026-11-22" in pages.show(data.PAGES["tab-export"])
    assert "There is nothing to show of this task" in pages.show(data.PAGES["tab-bash"])
    path = f"tasks/kb/{data.RUN}/load_faq/-1"
    text = pages.show(data.PAGES["tab-load_faq"], **{path: data.task_reply("unknown", tries=[])})
    assert "This task has not run yet." in text
    text = pages.show(data.PAGES["tab-load_faq"], **{path: data.task_reply(is_mapped_summary=True)})
    assert "Open one of its task instances" in text


def test_a_score_that_is_no_share_has_its_own_chart(pages: StubPages) -> None:
    means = {"token_f1": 0.8, "latency": 4.6}
    rows = [data.evaluation(number, means=means) for number in (2, 1)]
    pages.show(data.PAGES["page-quality"], evaluations=trends.Evaluations(problem=None, names=[], rows=rows))

    names = [chart.get_attribute("aria-label") for chart in pages.all(".chart svg[role=img]")]
    assert [name.partition(",")[0] for name in names] == ["Pass rate", "Scores", "latency"]


@pytest.mark.promise("security", "Texts of a service, a source or a task are shown as text and never run.")
def test_hostile_texts_are_text(pages: StubPages) -> None:
    evil = data.HOSTILE
    load = data.load(outcome="failed", source=evil, site_id=evil, error=evil)
    task = data.task().model_copy(update={"task_id": evil, "run_id": evil})
    written = tasks.Written(name=evil, path=evil, rows=1, url="javascript:globalThis.hacked=1")
    replies = {
        "summary": data.summary(sources=[m.SourceState(load=load, due=False)]),
        "loads": m.Loads(**data.paged([load.model_copy(update={"task": task})])),
        "entries/unresolved": m.Entries(**data.paged([data.entry(1, label=evil, error=evil, source=evil)])),
        "evaluations": trends.Evaluations(
            problem=None,
            names=[evil],
            rows=[data.evaluation(1, name=evil, worse=[evil], means={evil: 0.5}, report="//evil.example.com")],
        ),
        f"tasks/kb/{data.RUN}/load_faq/-1": data.task_reply(tries=[load], written=[written]),
        f"tasks/kb/{data.RUN}/load_faq/-1/findings": data.findings(
            rows=[tasks.Finding(kind=evil, row=1, key=evil, reason=evil, document_ids=[evil])],
            kinds=[tasks.FindingsKind(kind=evil, count=1)],
        ),
    }
    for page in ("page-loads", "page-settle", "page-quality", "tab-load_faq"):
        text = pages.show(data.PAGES[page], **replies)
        assert evil in text
    assert not [href for href in pages.links().values() if not href.startswith(pages.host.url)]
    assert not pages.driver.execute_script("return globalThis.hacked")
    assert not pages.all("img, script, [onerror]")


def test_times_are_the_viewers_and_utc_is_in_the_title(pages: StubPages) -> None:
    try:
        pages.driver.execute_script("localStorage.timezone = JSON.stringify('Asia/Tokyo')")
        pages.show("plugin/assistant")
        started = pages.all("tbody time")[0]
        assert started.text == "Nov 22, 2026, 10:00 AM"
        assert started.get_attribute("title") == "2026-11-22 01:00:00 UTC"
    finally:
        pages.driver.execute_script("localStorage.removeItem('timezone')")


def test_pages_and_filters_are_in_the_query_and_nothing_else_is(pages: StubPages) -> None:
    def queries() -> list[str]:
        return [query for path, query, _ in pages.host.requests if path == "loads"]

    pages.show("plugin/assistant")
    pages.button("Next").click()
    pages.wait.until(lambda _: "offset=25" in queries())
    pages.wait.until(lambda _: len(pages.all(".section select")) >= 2)  # those of sites and sources are not marked
    [outcome, source] = pages.all(".section select")[:2]
    Select(outcome).select_by_visible_text("failed")
    Select(source).select_by_visible_text("kb.upload_guides")
    pages.wait.until(lambda _: "source=kb.upload_guides&outcome=failed&offset=0" in queries())
    assert queries()[:2] == ["offset=0", "offset=25"]


def test_what_is_selected_is_in_the_address_and_stays(pages: StubPages) -> None:
    driver = pages.driver

    def address() -> str:
        return driver.current_url.removeprefix(pages.host.url)

    def asked(path: str) -> str:
        return [query for one, query, _ in pages.host.requests if one == path][-1]

    pages.show("plugin/assistant")
    pages.until("31 superseded")
    site = "site=shop&service=assistant.example.com"
    Select(pages.all("header select")[0]).select_by_visible_text("shop")
    pages.wait.until(lambda _: address() == f"plugin/assistant?{site}")
    Select(pages.all(".section select")[0]).select_by_visible_text("failed")
    pages.wait.until(lambda _: address() == f"plugin/assistant?{site}&outcome=failed")
    pages.click("nav.views a:nth-child(2)")
    pages.wait.until(lambda _: address() == f"plugin/assistant?view=settle&{site}")
    pages.until("Only entries of site shop, assistant.example.com.")
    for path in ("summary", *LISTS[1:], "evaluations"):
        assert site in asked(path)
    field = pages.all("input[type=search]")[0]
    field.send_keys("a/b & ñ", Keys.ENTER)
    pages.wait.until(lambda _: pages.host.searches[-3:] == ["a%2Fb%20%26%20%C3%B1"] * 3)
    shown = address()
    assert shown == f"plugin/assistant?view=settle&{site}#search=a%2Fb+%26+%C3%B1"
    assert not any("%C3%B1" in query for _, query, _ in pages.host.requests)
    driver.back()
    pages.wait.until(lambda _: field.get_attribute("value") == "")
    driver.back()
    pages.wait.until(lambda _: address() == f"plugin/assistant?{site}&outcome=failed")
    pages.wait.until(lambda _: f"{site}&outcome=failed" in asked("loads"))
    selected = [Select(one).first_selected_option.text for one in pages.all("header select, .section select")]
    assert selected[:2] == ["shop", "failed"]
    # A copied link shows the same to somebody else.
    pages.show(shown)
    pages.wait.until(lambda _: pages.host.searches)
    assert site in asked("entries/superseded")
    assert pages.all("input[type=search]")[0].get_attribute("value") == "a/b & ñ"
    pages.button("Remove filters").click()
    pages.wait.until(lambda _: address() == f"plugin/assistant?view=settle&{site}")


def test_a_card_leads_to_its_list_also_when_the_data_come_late(pages: StubPages) -> None:
    entries = data.filled()["entries/unresolved"].model_copy(
        update={"rows": [data.entry(number) for number in range(60)]}
    )

    def late(*_: Any) -> m.Entries:
        time.sleep(0.5)
        return entries

    pages.show("plugin/assistant", **{"entries/unresolved": late})
    pages.button("4 stale documents to delete").click()
    pages.until("sku=4770")
    top = "return document.getElementById('assistant-stale').getBoundingClientRect().top"
    pages.wait.until(lambda driver: -5 < driver.execute_script(top) < 900)
    assert pages.driver.switch_to.active_element.text == "Stale documents"


def test_a_load_leads_to_its_task_inside_the_router(pages: StubPages) -> None:
    driver = pages.driver
    pages.show("plugin/assistant")
    driver.execute_script("globalThis.same = true")
    pages.click("tbody a")
    pages.wait.until(lambda driver: "/tasks/load_faq" in driver.current_url)

    assert urlsplit(driver.current_url).path.startswith("/team-a/airflow/dags/kb/runs/")
    assert driver.execute_script("return globalThis.same")
    pages.show(data.PAGES["tab-judge"])
    pages.wait.until(lambda _: "Open the report" in pages.links())
    assert pages.links()["Open the report"] == f"{pages.url}assistant/reports/evaluation/scheduled__1/judge/-1"


def test_a_failed_evaluation_names_its_questions(pages: StubPages) -> None:
    for path in (data.PAGES["tab-judge"], data.PAGES["page-quality"]):
        pages.show(path)
        pages.until("Passed before, fail now")
        text = pages.text()
        assert "Passed before, fail now: refund-abroad, refund-time" in text
        assert "worse token_f1 drop <= 0.02: token_f1 changed by -0.0700 over 398 questions" in text
        assert "Questions: refund-abroad, refund-time, invoice-copy" in text
    pages.show(data.PAGES["tab-judge"])
    pages.until("The gate failed: the answers got worse")
    path = f"tasks/kb/{data.RUN}/judge/-1"
    passed = data.evaluation(0, verdict="passed", failed_rules=[])
    text = pages.show(data.PAGES["tab-judge"], **{path: data.task_reply("evaluation", evaluation=passed)})
    assert "The gate passed" in text
    assert "Passed before, fail now: refund-abroad, refund-time" in text
    assert "token_f1\t0.7\tworse" in text
