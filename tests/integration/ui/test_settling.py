"""Settling in a dialog, and use of the pages with keyboard and screen reader."""

from __future__ import annotations

from typing import Any

import pytest
from selenium.webdriver import Keys
from selenium.webdriver.support.ui import Select

from airflow_provider_assistant.ui import models as m
from airflow_provider_assistant.ui import task_models as tasks
from tests.integration.ui import data
from tests.integration.ui.conftest import StubPages

pytestmark = pytest.mark.system

FOCUSED = """
const one = document.activeElement;
const name = one.ariaLabel || one.innerText;
return [one, Boolean(one.closest(".assistant")), name, getComputedStyle(one).outlineStyle];
"""


def test_a_viewer_sees_no_button(pages: StubPages) -> None:
    rows = [data.entry(at, may_settle=False) for at in range(3)]
    text = pages.show(
        "plugin/assistant?view=settle",
        **{
            **{f"entries/{name}": m.Entries(**data.paged([])) for name in ("superseded", "stale", "draft")},
            "entries/unresolved": m.Entries(**data.paged(rows)),
        },
    )

    assert "sku=4712" in text
    assert "mark them" not in text
    assert "you need the right to change its task instances" in text
    assert not pages.all(".view table input")
    assert [one.text for one in pages.all(".view button")] == []


@pytest.mark.promise("pages", "Settling shows what will happen, and asks first.")
def test_settling_asks_first_and_names_the_rows_in_the_body_only(pages: StubPages) -> None:
    pages.show("plugin/assistant?view=settle")
    boxes = pages.all("input[type=checkbox]")
    assert boxes[0].get_attribute("aria-label") == "Select sku=4711"
    boxes[0].click()
    boxes[1].send_keys(Keys.SPACE)
    pages.button("Mark 2 as created").click()
    pages.until("2 entries would be settled as created")
    assert "The next load does not send them again." in pages.text()
    assert "sku=4711" in pages.text()
    assert pages.driver.switch_to.active_element.text == "Cancel"

    pages.driver.switch_to.active_element.send_keys(Keys.ESCAPE)
    pages.wait.until(lambda _: not pages.all("dialog"))
    assert "settle" not in [path for path, _, _ in pages.host.requests]
    assert pages.driver.switch_to.active_element.text == "Mark 2 as created"

    pages.button("Mark 2 as not created").click()
    pages.until("2 entries would be settled as not created")
    pages.button("Mark 2 entries as not created").click()
    pages.wait.until(lambda _: not pages.all("dialog"))
    pages.until("2 entries would be settled as not created")

    sent = [(query, body) for path, query, body in pages.host.requests if path == "settle"]
    assert sent == [("", {"outcome": "not-created", "ids": ["entry-0", "entry-1"], "confirmation": "2-abc"})]
    assert tasks.SettleRequest.model_validate(sent[0][1])
    assert pages.driver.switch_to.active_element.get_attribute("role") == "status"
    pages.wait.until(lambda _: [path for path, _, _ in pages.host.requests].count("summary") == 2)


def test_all_that_match_are_settled_in_one_confirmed_step(opened: StubPages) -> None:
    bodies: list[dict[str, Any]] = []

    def settled(query: dict[str, str], body: dict[str, Any]) -> Any:
        bodies.append(body)
        if len(bodies) == 1:
            return 409, {"detail": "The list has changed since it was shown: 9,811 entries match now."}
        return data.preview(query, body).model_copy(update={"is_preview": False})

    address = "plugin/assistant?view=settle&site=help&service=a.example&source=kb.load_faq#search=sku%3D"
    opened.show(address, settle=settled)
    assert "Only entries of site help, a.example." in opened.text()
    opened.button("Select all 12 that match").click()
    opened.button("Mark all 12 as not created").click()
    opened.until("3: You may not change its DAG.")
    assert f"On site '{data.SITE}' at service" in opened.text()
    assert "and 9,802 more" in opened.text()
    opened.button("Mark 9,812 entries as not created").click()
    opened.until("The list has changed since it was shown")
    opened.until("9,812 entries would be settled as not created")
    opened.button("Mark 9,812 entries as not created").click()
    opened.wait.until(lambda _: not opened.all("dialog"))

    filters = {"site_id": "help", "service": "a.example", "source": "kb.load_faq", "label_part": "sku="}
    asked = {"outcome": "not-created", "matching": {"which": "unresolved", **filters}}
    assert bodies == [{**asked, "confirmation": "9812-abc"}] * 2
    assert tasks.SettleRequest.model_validate(bodies[0])
    previews = [body for path, _, body in opened.host.requests if path == "settle/preview"]
    assert previews == [asked] * 2
    opened.errors()  # the reply with status 409


def test_settling_that_is_refused_stays_in_the_dialog(opened: StubPages) -> None:
    opened.show("plugin/assistant?view=settle", settle=(403, {"detail": "Forbidden"}))
    opened.button("Select all 6 on this page").click()
    opened.button("Mark 6 as created").click()
    opened.until("6 entries would be settled as created")
    opened.button("Mark 6 entries as created").click()
    opened.until("You do not have the rights")
    opened.button("Cancel").click()


def test_stale_findings_are_marked_as_removed(pages: StubPages) -> None:
    path = f"tasks/kb/{data.RUN}/load_faq/-1/findings"
    rows = [
        tasks.Finding(kind="stale", row=None, key=f"sku={at}", reason="gone", document_ids=ids)
        for at, ids in ((1, ["doc-1"]), (2, []))
    ]
    pages.show(data.PAGES["tab-load_faq"], **{path: data.findings(rows=rows)})
    Select(pages.all(".section select")[0]).select_by_value("stale")
    pages.until("Mark these as removed from the site")
    pages.button("Mark these as removed from the site").click()
    pages.until("Mark as removed from the site?")
    pages.wait.until(lambda _: any(path == "settle/preview" for path, _, _ in pages.host.requests))

    [body] = [body for path, _, body in pages.host.requests if path == "settle/preview"]
    request = tasks.SettleRequest.model_validate(body)
    assert (request.outcome, request.site_id, request.document_ids) == ("removed", data.SITE, ["doc-1"])
    pages.button("Cancel").click()


@pytest.mark.promise("pages", "Everything on the page can be used with the keyboard.")
def test_everything_can_be_reached_with_the_keyboard(pages: StubPages) -> None:
    pages.show("plugin/assistant?view=settle")
    pages.wait.until(lambda _: pages.all("header select"))  # the choice of a site is not marked as loading
    pages.driver.execute_script("document.querySelector('.assistant select').focus()")
    pages.driver.switch_to.active_element.send_keys(Keys.TAB)
    reached = set()
    for _ in range(60):
        active, inside, name, outline = pages.driver.execute_script(FOCUSED)
        if not inside:
            break
        reached.add(name)
        assert outline != "none", active.get_attribute("outerHTML")
        active.send_keys(Keys.TAB)
    wanted = {
        "12 ambiguous entries to settle",
        "Loads",
        "Select all 6 on this page",
        "Select sku=4711",
        "Ambiguous entries",
        "kb.load_faq",
    }
    assert wanted <= reached
