"""The pages in Airflow's UI with a real Airflow, real loads and users with different rights."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from selenium.webdriver import Chrome
from selenium.webdriver.common.by import By

from tests.live.airflow import LiveAirflow
from tests.live.chromium import chromium
from tests.live.pages import Pages
from tests.live.service import AssistantService
from tests.system.dags.shown import HOSTILE, ROWS, SITE

# tests/integration/ui shows the pages in a browser, and test_rights.py their rights on a real Airflow.
pytestmark = [pytest.mark.system, pytest.mark.nightly]

AMBIGUOUS = 2


@pytest.fixture(scope="module")
def loaded(airflow: LiveAirflow, service: AssistantService) -> Iterator[str]:
    """A run with a load that failed: one row was rejected, and the answers to two were lost."""
    # The first request of a load goes alone.
    rule = {"path": f"{SITE}/documents/qa", "skip": 1, "times": AMBIGUOUS, "action": "store-then-status:502"}
    service.faults(rules=[rule])
    run_id = airflow.trigger("shown")
    airflow.wait_run("shown", run_id)
    assert airflow.task_states("shown", run_id) == {"load": "failed", "ask": "success", "judge": "success"}
    assert (
        airflow.request("GET", "/assistant/api/entries", params={"which": "unresolved", "site": SITE})["total"]
        == AMBIGUOUS
    )
    yield run_id
    service.reset("faults")


class Session(Pages):
    """The pages as one user."""

    def __init__(self, driver: Chrome, airflow: LiveAirflow) -> None:
        super().__init__(driver, f"{airflow.base_url}/")
        self.airflow = airflow

    def log_in(self, user: str) -> None:
        """Log in as another user."""
        self.driver.delete_all_cookies()
        self.driver.get(self.url)
        self.wait.until(lambda driver: driver.find_elements(By.NAME, "username"))
        self.driver.find_element(By.NAME, "username").send_keys(user)
        self.driver.find_element(By.NAME, "password").send_keys(self.airflow.password)
        self.driver.find_element(By.CSS_SELECTOR, "button[type=submit]").click()
        self.wait.until(lambda driver: "login" not in driver.current_url)
        self.start()

    def of_site(self) -> str:
        """Open the page for the site of these tests."""
        # The ledger has several sites after the other tests.
        return self.open(f"plugin/assistant?site={SITE}")


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory, airflow: LiveAirflow, loaded: str) -> Iterator[Session]:
    driver = chromium(tmp_path_factory.mktemp("chromium"), "--window-size=1440,1500")
    yield Session(driver, airflow)
    driver.quit()


@pytest.mark.promise("pages", "A viewer sees what needs a person, and cannot change it.")
def test_a_viewer_sees_everything_and_changes_nothing(session: Session) -> None:
    session.log_in("viewer")
    session.of_site()
    text = session.text()

    assert f"ambiguous ({AMBIGUOUS})" in text
    assert "row-" in text
    assert not session.all("input[type=checkbox]")
    assert session.errors() == []


@pytest.mark.promise("pages", "The tab of a load accounts for every row; a hostile row is shown as text.")
def test_the_tab_of_the_load(session: Session, airflow: LiveAirflow, loaded: str) -> None:
    session.log_in("admin")
    session.open(f"plugin/assistant?site={SITE}&source=shown.load")
    session.click("[aria-labelledby=assistant-tries] tbody a")
    session.wait.until(
        lambda driver: f"/dags/shown/runs/{loaded}" in driver.current_url.replace("%3A", ":").replace("%2B", "+")
    )
    session.wait.until(lambda driver: driver.find_elements(By.LINK_TEXT, "Assistant"))
    session.driver.find_element(By.LINK_TEXT, "Assistant").click()
    text = session.text()

    assert re.search("(The load|Try 2 of 2) failed", text)
    numbers = {
        one.find_element(By.TAG_NAME, "dt").text: int(one.find_element(By.TAG_NAME, "dd").text)
        for one in session.all(".counts")[0].find_elements(By.CSS_SELECTOR, "div")
    }
    assert sum(numbers.values()) == len(ROWS)
    assert (numbers["rejected"], numbers["ambiguous"]) == (1, AMBIGUOUS)
    session.until(HOSTILE)
    assert not session.driver.execute_script("return globalThis.hacked")
    assert session.axe() == []
    assert session.errors() == []


def test_the_tabs_of_the_other_tasks(session: Session, loaded: str) -> None:
    assert "complete\n4" in session.open(f"dags/shown/runs/{loaded}/tasks/ask/plugin/assistant_task")
    assert "verdict\npassed" in session.open(f"dags/shown/runs/{loaded}/tasks/judge/plugin/assistant_task")
    link = session.links()["Open the report in a new tab"]
    assert link.startswith(f"{session.url}assistant/reports/shown/")
    [frame] = session.all("iframe")
    session.driver.switch_to.frame(frame)
    session.wait.until(lambda driver: driver.find_elements(By.TAG_NAME, "h1"))
    session.driver.switch_to.default_content()
    assert session.errors() == []


def test_evaluations_are_on_the_page(session: Session) -> None:
    session.open("plugin/assistant?kind=evaluation")
    session.until("Show the numbers")
    assert session.all(".chart svg[role=img]")
    assert session.errors() == []
