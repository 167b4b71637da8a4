"""What the pages in Airflow's UI show in every state, and settling in a dialog."""

from __future__ import annotations

from typing import Any

import pytest
from selenium.webdriver import Keys
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import Select

from airflow_provider_assistant.ui import models as m
from tests.integration.ui import data
from tests.integration.ui.conftest import StubPages

pytestmark = pytest.mark.system

HERE = f"tasks/kb/{data.RUN}"
FOCUSED = """
const one = document.activeElement;
const name = one.ariaLabel || one.innerText || one.labels?.[0]?.innerText;
return [one, Boolean(one.closest(".assistant")), name, getComputedStyle(one).outlineStyle];
"""


@pytest.mark.promise("pages", "One page shows what needs a person, the tries of tasks, documents and evaluations.")
def test_the_page_has_two_lists_and_two_charts(pages: StubPages) -> None:
    text = pages.show(data.PAGE)
    for sentence in (
        "ambiguous (12)",
        "Sent, and nobody knows whether it exists.",
        "sku=4717\tbeing sent now",
        "11,700 created, 200 unchanged, 88 rejected, 12 ambiguous",
        "195 complete, 2 failed, 1 timed out, 2 not submitted",
        "failed, 78% passed",
        "120 rows",
        "1 to 12 of 5,000 tries",
    ):
        assert sentence in text
    names = [chart.get_attribute("aria-label") for chart in pages.all("svg[role=img]")]
    assert names == ["Documents. Documents: last 62,673", "Pass rate. golden_set: last 78%"]
    # One request for each list.
    assert sorted(path for path, _, _ in pages.host.requests) == ["context", "documents", "entries", "tries", "tries"]


def test_an_empty_ledger_and_a_missing_one(pages: StubPages) -> None:
    nothing = data.paged([])
    empty = {
        "context": data.context(sites=[]),
        "entries": m.Entries(**nothing, which="unresolved", lists={}),
        "tries": m.Tries(**nothing),
        "documents": m.Documents(problem=None, days=[]),
    }
    text = pages.show(data.PAGE, empty)
    for sentence in (
        "Nothing needs a person.",
        "No task has run yet.",
        "No load has counted its documents yet.",
        "No evaluation with pass_if has run yet.",
    ):
        assert sentence in text
    problem = "This API server has no ledger. Set [assistant] ledger_conn_id."
    text = pages.show(data.PAGE, {"context": data.context(sites=[], problem=problem)})
    assert text.count(problem) == 1


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
    for path in (data.PAGE, data.TABS["load_faq"]):
        text = opened.show(path, dict.fromkeys(data.filled(), refused))
        assert sentence in text
        assert "canary" not in text
    opened.host.reply(data.filled())
    opened.button("Try again").click()
    opened.until("Try 2 of 2 failed")
    # One part that fails leaves the others.
    text = opened.show(data.PAGE, entries=(500, {}))
    assert "The API server failed with status 500." in text
    assert "1 to 12 of 5,000 tries" in text


@pytest.mark.promise("pages", "What the page shows is in its address, and keys are only in its fragment.")
def test_what_is_selected_is_in_the_address_and_stays(pages: StubPages) -> None:
    driver = pages.driver

    def address() -> str:
        return driver.current_url.removeprefix(pages.host.url)

    def asked(path: str) -> list[str]:
        return [query for one, query, _ in pages.host.requests if one == path]

    pages.show(data.PAGE)
    [site, _, which, kind, _] = pages.all(".filters select")
    Select(site).select_by_visible_text("shop")
    selected = f"site=shop&service={data.SERVICE}"
    pages.wait.until(lambda _: address() == f"{data.PAGE}?{selected}")
    Select(kind).select_by_value("load")
    pages.wait.until(lambda _: any(f"{selected}&kind=load" in one for one in asked("tries")))
    Select(which).select_by_value("stale")
    pages.until("Its row is gone from the source.")
    field = pages.all("input[type=search]")[0]
    field.send_keys("a/b & ñ", Keys.ENTER)
    pages.wait.until(lambda _: pages.host.searches[-1:] == ["a%2Fb%20%26%20%C3%B1"])
    shown = address()
    assert shown == f"{data.PAGE}?{selected}&kind=load&list=stale#search=a%2Fb+%26+%C3%B1"
    assert not any("%C3%B1" in query for _, query, _ in pages.host.requests)
    assert all(selected in asked(path)[-1] for path in ("entries", "documents", "tries"))
    driver.back()
    pages.wait.until(lambda _: field.get_attribute("value") == "")
    # A copied link shows the same to somebody else.
    pages.show(shown)
    pages.wait.until(lambda _: pages.host.searches)
    assert f"{selected}&which=stale&offset=0" in asked("entries")[-1]
    pages.button("Remove filters").click()
    pages.wait.until(lambda _: "kind=" not in address())


def test_pages_are_turned(pages: StubPages) -> None:
    pages.show(data.PAGE)
    pages.button("Next").click()
    pages.until("26 to 37 of 5,000 tries")
    Select(pages.all(".filters select")[3]).select_by_value("load")
    pages.until("1 to 12 of 5,000 tries")


def test_times_are_in_the_zone_that_the_viewer_selected(pages: StubPages) -> None:
    try:
        pages.driver.execute_script("localStorage.timezone = JSON.stringify('Asia/Tokyo')")
        pages.show(data.PAGE)
        sent = pages.all("tbody time")[0]
        assert sent.text == "Nov 22, 2026, 10:30 AM"
        assert sent.get_attribute("title") == "2026-11-22 01:30:00 UTC"
    finally:
        pages.driver.execute_script("localStorage.removeItem('timezone')")


@pytest.mark.promise("security", "Texts of a service, a source or a task are shown as text and never run.")
def test_hostile_texts_are_text(pages: StubPages) -> None:
    def hostile(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: hostile(one) for name, one in value.items()}
        if isinstance(value, list):
            return [hostile(one) for one in value]
        return data.HOSTILE if isinstance(value, str) else value

    texts = ("source", "error", "label", "reason", "key", "document_id", "site_id", "service", "findings")

    def changed(value: Any) -> Any:
        if isinstance(value, dict):
            return {
                name: hostile(one) if name in texts or name == "counts" else changed(one) for name, one in value.items()
            }
        return [changed(one) for one in value] if isinstance(value, list) else value

    def reply(found: Any) -> Any:
        if callable(found):
            return lambda query, body: changed(found(query, body).model_dump(mode="json"))
        return changed(found.model_dump(mode="json"))

    replies = {path: reply(found) for path, found in data.filled().items()}
    for path in (data.PAGE, *data.TABS.values()):
        pages.show(path, replies)
        if path != data.TABS["bash"]:
            assert "<script>" in pages.text()
        assert not pages.driver.execute_script("return globalThis.hacked")
        assert not pages.all("img, script")


# -- the tab ------------------------------------------------------------------------------------------


def test_the_tab_of_a_load(pages: StubPages) -> None:
    text = pages.show(data.TABS["load_faq"])
    assert "Try 2 of 2 failed" in text
    assert str(data.BAD.error) in text
    assert "1\tNov 22, 2026, 1:00 AM\tkilled" in text
    parts = {
        one.find_element(By.TAG_NAME, "dt").text: int(one.find_element(By.TAG_NAME, "dd").text.replace(",", ""))
        for one in pages.all(".counts div")
    }
    assert (parts.pop("rows"), parts.pop("stale"), parts.pop("requests")) == (12_000, 4, 11_850)
    assert sum(parts.values()) == 12_000
    bar = pages.all("[role=img]")[0].get_attribute("aria-label")
    assert bar == "12,000 rows: 11,700 created, 200 unchanged, 88 rejected, 12 ambiguous"
    assert "The ledger keeps the first 1,000 findings. All are in s3://lake/findings/run.parquet." in text
    Select(pages.all("select")[0]).select_by_value("rejected")
    pages.until("Refused because of the row itself. Correct it in the source.")
    pages.button("Settle ambiguous entries").click()
    pages.wait.until(lambda driver: "list=unresolved" in driver.current_url)
    assert f"site=help&service={data.SERVICE}&source=kb.load_faq" in pages.driver.current_url


def test_the_tabs_of_other_tasks(pages: StubPages) -> None:
    batch = pages.show(data.TABS["ask"])
    assert "The chat batch succeeded" in batch
    assert "complete\n195" in batch
    judged = pages.show(data.TABS["judge"])
    assert "pass rate\n78%" in judged
    assert "token_f1: 0.7" in judged
    assert "rule: token_f1 drop <= 0.02; verdict: worse; reason: token_f1 changed by -0.0700" in judged
    [frame] = pages.all("iframe")
    assert (frame.get_attribute("sandbox"), frame.get_attribute("src")) == ("", pages.url + data.REPORT[1:])
    assert "rows\n120" in pages.show(data.TABS["export"])
    assert "it is not a task of this package" in pages.show(data.TABS["bash"])
    mapped = data.task_reply(operator="A", is_mapped=True)
    assert "This task is mapped." in pages.show(data.TABS["bash"], **{f"{HERE}/bash/-1": mapped})
    unknown = data.task_reply(operator=None, state=None)
    assert "has not run yet" in pages.show(data.TABS["bash"], **{f"{HERE}/bash/-1": unknown})


def test_a_task_that_runs_is_read_again(pages: StubPages) -> None:
    pages.driver.execute_script("globalThis.wait = setInterval; globalThis.setInterval = (run) => wait(run, 50)")
    try:
        running = data.task_reply(data.a_try(outcome="running", counts={}, ended_at=None, seconds=None))
        running = running.model_copy(update={"state": "running"})
        replies = iter([running])
        ended = data.task_reply(data.BAD)
        text = pages.show(data.TABS["load_faq"], **{f"{HERE}/load_faq/-1": lambda *_: next(replies, ended)})
        assert "The load" in text
        pages.until("The load failed")
    finally:
        pages.driver.execute_script("globalThis.setInterval = globalThis.wait")


# -- settling -------------------------------------------------------------------------------------------


def test_a_viewer_sees_no_button(pages: StubPages) -> None:
    found = data.entries({})
    rows = [row.model_copy(update={"outcomes": []}) for row in found.rows]
    viewer = data.context(may_settle=False)
    text = pages.show(data.PAGE, context=viewer, entries=found.model_copy(update={"rows": rows}))
    assert "sku=4712" in text
    assert "You may not settle these" in text
    assert not pages.all("table input, .actions button, textarea")


@pytest.mark.promise("pages", "Settling shows what will happen, and asks first.")
def test_settling_asks_first_and_names_the_rows_in_the_body_only(pages: StubPages) -> None:
    pages.show(data.PAGE)
    boxes = pages.all("input[type=checkbox]")
    assert boxes[0].get_attribute("aria-label") == "Select sku=4711"
    boxes[0].click()
    boxes[1].send_keys(Keys.SPACE)
    pages.button("Mark 2 as created").click()
    pages.until("2 entries would be settled as created")
    assert f"On site '{data.SITE}' at service" in pages.text()
    assert pages.driver.switch_to.active_element.text == "Cancel"

    pages.driver.switch_to.active_element.send_keys(Keys.ESCAPE)
    pages.wait.until(lambda _: not pages.all("dialog"))
    assert "settle" not in [path for path, _, _ in pages.host.requests]
    assert pages.driver.switch_to.active_element.text == "Mark 2 as created"

    pages.button("Mark 2 as not created").click()
    pages.button("Mark 2 entries as not created").click()
    pages.wait.until(lambda _: not pages.all("dialog"))
    sent = [(query, body) for path, query, body in pages.host.requests if path == "settle"]
    ids = [["scope", "key-0", 1], ["scope", "key-1", 1]]
    assert sent == [("", {"outcome": "not-created", "ids": ids, "confirmation": "2-abc"})]
    pages.wait.until(lambda _: pages.driver.switch_to.active_element.get_attribute("role") == "status")
    # The lists are read again.
    pages.wait.until(lambda _: [path for path, _, _ in pages.host.requests].count("entries") == 2)


def test_a_list_that_has_changed_is_shown_again(opened: StubPages) -> None:
    replies = iter([(409, {"detail": "The list has changed since it was shown."}), (403, {"detail": "Forbidden"})])
    opened.show(data.PAGE, settle=lambda *_: next(replies))
    opened.button("Select all 6 on this page").click()
    opened.button("Mark 6 as created").click()
    opened.button("Mark 6 entries as created").click()
    opened.until("The list has changed since it was shown.")
    opened.until("6 entries would be settled as created")
    opened.button("Mark 6 entries as created").click()
    opened.until("You do not have the rights")
    opened.button("Cancel").click()


def test_documents_are_settled_by_their_ids(pages: StubPages) -> None:
    pages.show(data.PAGE)
    pages.click("summary")
    pages.until("Select a site first.")
    pages.show(f"{data.PAGE}?site=help&service={data.SERVICE}")
    pages.click("summary")
    pages.all("textarea")[0].send_keys("doc-1\ndoc-2, doc-1")
    pages.button("Mark these documents as removed").click()
    pages.button("Mark 2 entries as removed from the site").click()
    pages.wait.until(lambda _: not pages.all("dialog"))
    [body] = [body for path, _, body in pages.host.requests if path == "settle"]
    site = {"site_id": "help", "service": data.SERVICE}
    assert body == {"outcome": "removed", "document_ids": ["doc-1", "doc-2"], **site, "confirmation": "2-abc"}


@pytest.mark.promise("pages", "Everything on the page can be used with the keyboard.")
def test_everything_can_be_reached_with_the_keyboard(pages: StubPages) -> None:
    pages.show(data.PAGE)
    pages.driver.execute_script("document.querySelector('.assistant select').focus()")
    reached = set()
    for _ in range(60):
        active, inside, name, outline = pages.driver.execute_script(FOCUSED)
        if not inside:
            break
        reached.add(name)
        assert outline != "none", active.get_attribute("outerHTML")
        active.send_keys(Keys.TAB)
    wanted = {
        "Refresh",
        "Key contains",
        "Select all 6 on this page",
        "Select sku=4711",
        "What needs a person",
        "Settle documents by their ids",
        "kb.load_faq",
        "Tries of tasks",
        "Next",
        "Show the numbers",
    }
    assert wanted <= reached


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("m.number(12345.678)", "12,345.68"),
        ("[m.number(null), m.percent(null), m.percent(0.8242)]", ["\u2013", "\u2013", "82.4%"]),
        ("[m.plural(1, 'row'), m.plural(0, 'entry', 'entries')]", ["1 row", "0 entries"]),
        (
            "[m.duration(0.4249), m.duration(59.9), m.duration(280.5), m.duration(7500), m.duration(null)]",
            ["0.425 s", "59.9 s", "4 min 40 s", "2 h 5 min", "\u2013"],
        ),
        ("[m.short(0.25), m.short(90000)]", ["0.25", "90K"]),
        ("m.utc('2026-11-22T06:30:00+01:00')", "2026-11-22 05:30:00 UTC"),
    ],
)
def test_format(pages: StubPages, expression: str, expected: Any) -> None:
    assert pages.module("format.mjs", expression) == expected


@pytest.mark.promise("security", "A link from the server is a page of this Airflow or of the web, and never a script.")
def test_links(pages: StubPages) -> None:
    hrefs = ["/assistant/x", "https://a.example/b", "javascript:alert(1)", "//a.example", "data:text/html,x", None]
    links = pages.module("core.mjs", "a[0].map((one) => m.linkUrl(one))", hrefs)
    assert links == [f"{pages.url}assistant/x", "https://a.example/b", None, None, None, None]
