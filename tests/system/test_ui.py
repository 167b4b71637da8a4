"""
The connection form in Airflow's UI and in its API.

Set ``UPDATE_IMAGES=1`` to update the screenshots of the documentation.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from selenium.common.exceptions import (
    ElementClickInterceptedException,
    ElementNotInteractableException,
    StaleElementReferenceException,
)
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.ui import WebDriverWait

from airflow_provider_assistant.hooks.extra import form_fields
from airflow_provider_assistant.sandbox.messages import DEFAULT_KEY
from tests.live.airflow import LiveAirflow
from tests.live.chromium import chromium
from tests.live.clients import local_request
from tests.live.process import NotReadyError
from tests.live.service import AssistantService
from tests.system.conftest import WRONG_KEY
from tests.system.search import places

pytestmark = pytest.mark.system

IMAGES = Path(__file__).parents[2] / "docs" / "images"
PATIENCE = 30
STANDARD_LABELS = ["Description", "Base URL", "API key"]
EXTRA_LABELS = [field["label"] for field in form_fields().values()]
HIDDEN_LABELS = {"Host", "Password", "Login", "Port", "Schema"}


# React replaces and moves elements after they were found.
NOT_YET = (StaleElementReferenceException, ElementClickInterceptedException, ElementNotInteractableException)


class Browser:
    """Chromium with Airflow's UI open."""

    def __init__(self, home: Path) -> None:
        self.driver = chromium(home, "--window-size=1000,2900")
        self._wait = WebDriverWait(self.driver, PATIENCE, ignored_exceptions=NOT_YET)

    def find(self, selector: str, text: str | None = None) -> WebElement:
        """Wait for a visible element with a CSS selector and a text."""

        def found(driver: Chrome) -> WebElement | None:
            for element in driver.find_elements(By.CSS_SELECTOR, selector):
                if element.is_displayed() and (text is None or element.text.strip() == text):
                    return element
            return None

        return self._wait.until(found, f"no {selector} {text or ''}")

    def read(self, text: str) -> None:
        """Wait until the page contains a text."""
        said = "return document.body.textContent"
        self._wait.until(lambda driver: text in driver.execute_script(said), f"{text!r} is not there")

    def click(self, selector: str, text: str | None = None) -> None:
        """Wait for an element and click it."""
        self._done(lambda: self.find(selector, text).click(), f"cannot click {selector} {text or ''}")

    def write(self, selector: str, text: str) -> None:
        """Wait for an input and type."""
        self._done(lambda: self.find(selector).send_keys(text), f"cannot write to {selector}")

    def _done(self, act: Callable[[], None], trouble: str) -> None:
        def done(_: Chrome) -> bool:
            act()
            return True

        self._wait.until(done, trouble)

    def open(self, group: str) -> None:
        """Open a group of the form. This closes the group that was open."""
        self.click("button[data-part=item-trigger]", group)
        self.find("button[data-part=item-trigger][aria-expanded=true]", group)
        self._settled()

    def _settled(self) -> None:
        """Wait until all finite animations have finished."""
        ending = "a => a.playState === 'running' && isFinite(a.effect.getComputedTiming().endTime)"
        running = f"return document.getAnimations().filter({ending}).length"
        self._wait.until(lambda driver: not driver.execute_script(running), "animations do not end")

    def labels(self) -> list[str]:
        """Return the visible labels in order."""
        found = self.driver.find_elements(By.CSS_SELECTOR, "[role=dialog] label[data-part=label]")
        return [label.text.removesuffix("*").strip() for label in found if label.is_displayed()]

    def picture(self, path: Path) -> None:
        """Save a screenshot of the form, which fits into the window."""
        self.driver.execute_script("document.activeElement.blur()")
        self._settled()
        form = self.find("[role=dialog]")
        width, height = self.driver.execute_script("return [innerWidth, innerHeight]")
        assert form.rect["x"] >= 0
        assert form.rect["y"] >= 0
        assert form.rect["x"] + form.rect["width"] <= width
        assert form.rect["y"] + form.rect["height"] <= height
        path.parent.mkdir(exist_ok=True)
        assert form.screenshot(str(path))


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory, airflow: LiveAirflow) -> Iterator[Browser]:
    """A browser with an administrator logged in."""
    browser = Browser(tmp_path_factory.mktemp("chromium"))
    try:
        browser.driver.get(f"{airflow.base_url}/connections")
        browser.write("input[name=username]", airflow.user)
        browser.write("input[name=password]", airflow.password)
        browser.click("button[type=submit]")
        browser.find("button", "Add Connection")
        yield browser
    finally:
        browser.driver.quit()


def try_connection(airflow: LiveAirflow, connection: dict[str, Any]) -> tuple[bool, str]:
    """Test a connection as the button of the form does."""
    body = {"connection_id": "tested", **connection, "extra": json.dumps(connection["extra"])}
    result = airflow.request("POST", "/api/v2/connections/test", json=body)
    return result["status"], result["message"]


def test_the_form_and_the_test_button(airflow: LiveAirflow, service: AssistantService) -> None:
    hooks = airflow.request("GET", "/ui/connections/hook_meta")
    (form,) = [hook for hook in hooks if hook["connection_type"] == "assistant"]

    standard = form["standard_fields"]
    assert (standard["host"]["title"], standard["password"]["title"]) == ("Base URL", "API key")
    hidden = {name for name, field in standard.items() if (field or {}).get("hidden")}
    assert hidden == {"login", "port", "url_schema"}
    assert [field["schema"]["title"] for field in form["extra_fields"].values()] == EXTRA_LABELS
    assert form["hook_class_name"].startswith("airflow_provider_assistant.hooks.")

    works, message = try_connection(airflow, service.connection)
    assert works is True
    assert "limits of tenant 'acme-inc'" in message
    assert "plan" in message


@pytest.mark.promise("Airflow", "The connection form's test says what is wrong, and never shows the key.")
@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"password": WRONG_KEY}, "401"),
        ({"host": "http://127.0.0.1:9"}, "Check the base URL"),
        ({"password": ""}, "has no API key"),
        ({"extra": {"tennant_id": "acme-inc"}}, "no tenant_id"),
    ],
)
def test_a_failed_test_says_why_and_keeps_the_key(
    airflow: LiveAirflow, service: AssistantService, change: dict[str, Any], told: str
) -> None:
    works, message = try_connection(
        airflow, {**service.connection, "extra": {**service.connection["extra"], "retries": 0}} | change
    )

    assert works is False
    assert told in message
    assert DEFAULT_KEY not in message
    assert WRONG_KEY not in message


@pytest.mark.nightly
def test_the_form_in_a_browser(
    airflow: LiveAirflow, browser: Browser, service: AssistantService, tmp_path: Path
) -> None:
    images = IMAGES if os.environ.get("UPDATE_IMAGES") else tmp_path / "images"
    browser.click("button", "Add Connection")
    browser.write("input[name=connection_id]", "assistant_default")
    browser.write("input[role=combobox]", "Assistant")
    browser.find("[role=option]", "Assistant")
    browser.write("input[role=combobox]", Keys.ENTER)
    browser.find("input[name=host]")

    assert browser.labels() == ["Connection ID", "Connection Type", *STANDARD_LABELS]
    assert browser.find("input[name=host]").get_attribute("placeholder").startswith("https://")
    assert browser.find("input[name=password]").get_attribute("type") == "password"
    browser.write("input[name=host]", "https://assistant.example.com")
    browser.write("input[name=password]", WRONG_KEY)

    browser.open("Extra Fields")
    assert browser.labels() == ["Connection ID", "Connection Type", *EXTRA_LABELS]
    assert not HIDDEN_LABELS & {*browser.labels(), *STANDARD_LABELS}
    browser.write("input[name=element_tenant_id]", service.tenant_id)
    browser.write("input[name=element_site_id]", service.site_id)
    browser.write("input[name=element_timeout]", "20")
    browser.picture(images / "connection-form-options.png")
    browser.click("button", "Save")

    def saved() -> dict[str, Any] | None:
        connections = airflow.request("GET", "/api/v2/connections")["connections"]
        return next((one for one in connections if one["connection_id"] == "assistant_default"), None)

    try:
        connection = airflow.wait("the saved connection", saved, timeout=PATIENCE)
    except NotReadyError:
        browser.driver.save_screenshot(str(tmp_path / "not-saved.png"))
        raise
    assert connection["conn_type"] == "assistant"
    assert connection["host"] == "https://assistant.example.com"
    assert '"tenant_id": "acme-inc"' in connection["extra"]
    assert '"timeout": 20' in connection["extra"]
    assert WRONG_KEY not in str(connection)
    assert places(airflow.home, WRONG_KEY, database=airflow.database.url) == set()


@pytest.fixture(scope="module")
def judged(airflow: LiveAirflow) -> str:
    """A DAG run with a report."""
    run_id = airflow.trigger("judging")
    assert airflow.wait_run("judging", run_id) == "success"
    return run_id


@pytest.mark.nightly
def test_a_button_of_the_task_leads_to_its_report(airflow: LiveAirflow, browser: Browser, judged: str) -> None:
    task = f"{airflow.base_url}/dags/judging/runs/{quote(judged)}/tasks/judge"
    browser.driver.get(f"{task}/rendered_templates")
    browser.read("list, 2 rows")
    browser.driver.get(f"{task}/details")
    browser.click("a", "Evaluation report")
    browser.find("h1")
    assert browser.driver.current_url.startswith(f"{airflow.base_url}/assistant/reports/judging/")
    assert "judging.judge" in browser.driver.title
    # The browser logs here what the policy of the page blocks.
    assert not [entry for entry in browser.driver.get_log("browser") if "/assistant/" in entry["message"]]


@pytest.mark.promise("security", "Only users who may see a task can see its report.")
def test_only_who_may_see_the_task_sees_its_report(airflow: LiveAirflow, judged: str) -> None:
    path = f"/assistant/reports/judging/{quote(judged)}/judge/-1"
    for headers in ({}, {"Authorization": "Bearer nonsense"}):
        refused = local_request("GET", f"{airflow.base_url}{path}", headers=headers)
        assert refused.status_code in {401, 403}
        assert "<h1" not in refused.text
    shown = airflow.send("GET", path)
    assert (shown.status_code, shown.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert "judging.judge" in shown.text
    assert airflow.send("GET", "/assistant/docs").status_code == 404
