"""A browser on the pages of this package in Airflow's UI."""

from __future__ import annotations

import re
from importlib.resources import files
from typing import TYPE_CHECKING

from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

if TYPE_CHECKING:
    from collections.abc import Sequence

    from selenium.webdriver import Chrome
    from selenium.webdriver.remote.webelement import WebElement

PATIENCE, INTERVAL = 30, 0.1  # seconds
AXE = files("axe_core_python") / "axe.min.js"
# Only what this package renders.
RUN_AXE = """
const done = arguments[arguments.length - 1];
axe.run(".assistant", {resultTypes: ["violations"], ...arguments[0]}).then(
    (found) => done(found.violations.map((one) => `${one.impact} ${one.id}: ${one.nodes.map((node) => node.html)}`)),
    (error) => done([String(error)]));
"""
# Airflow's bundle of 7 MB is not loaded again. An unknown path comes first, so that our page is mounted again.
NAVIGATE = """
for (const path of ["plugin/none", arguments[0]]) {
    history.pushState({}, "", new URL(path, document.baseURI));
    dispatchEvent(new PopStateEvent("popstate", {state: {}}));
    while (path === "plugin/none" && document.querySelector(".assistant")) {
        await new Promise((done) => setTimeout(done, 20));
    }
}
"""
# A chart is drawn when the browser has told its width.
READY = """
const page = document.querySelector(".assistant");
return page && !page.querySelector(".loading, .chart:not(:has(svg[role=img]))") && page.innerText.trim() !== "";
"""
WITH_TEXT = """
return [...document.querySelectorAll(".assistant :is(button, a, summary)")]
    .filter((one) => one.checkVisibility() && one.innerText.trim() === arguments[0]);
"""


class Pages:
    """
    Our part of Airflow's UI.

    :param driver: The browser.
    :param url: URL of Airflow, with a slash at the end.
    """

    def __init__(self, driver: Chrome, url: str) -> None:
        self.driver, self.url = driver, url
        missing = [StaleElementReferenceException, IndexError]
        self.wait = WebDriverWait(driver, PATIENCE, INTERVAL, ignored_exceptions=missing)

    def start(self) -> None:
        """Load Airflow's UI."""
        self.driver.get(f"{self.url}plugin/none")
        self.wait.until(lambda driver: driver.execute_script("return Boolean(globalThis.ReactRouterDOM)"))

    def open(self, path: str) -> str:
        """Open a page and return its text as soon as all data are there."""
        self.driver.execute_script(NAVIGATE, path)
        return self.text()

    def text(self) -> str:
        """Return the text of our part of the page as soon as nothing is loading."""
        self.wait.until(lambda driver: driver.execute_script(READY), "the page does not finish")
        text: str = self.driver.execute_script("return document.querySelector('.assistant').innerText")
        return re.sub(r"\n+", "\n", text)

    def until(self, text: str) -> None:
        """Wait until the page contains a text."""
        self.wait.until(lambda _: text in self.text(), f"{text!r} is not on the page")

    def all(self, selector: str) -> list[WebElement]:
        """Return the elements with a CSS selector."""
        return self.driver.find_elements(By.CSS_SELECTOR, f".assistant :is({selector})")

    def links(self) -> dict[str, str]:
        """Return the URLs by text."""
        script = "return [...document.querySelectorAll('.assistant a')].map((one) => [one.innerText, one.href])"
        return dict(self.driver.execute_script(script))

    def click(self, selector: str) -> None:
        """Click the first element with a CSS selector as soon as it stays."""
        self.wait.until(lambda _: (self.all(selector)[0].click(), True)[1])

    def button(self, text: str) -> WebElement:
        """Return the only button or link with a text as soon as it is there."""

        def found(driver: Chrome) -> WebElement | None:
            matching: list[WebElement] = driver.execute_script(WITH_TEXT, text)
            return matching[0] if len(matching) == 1 else None

        button: WebElement = self.wait.until(found, f"there is not one button {text!r}")
        return button

    def theme(self, name: str) -> None:
        """Switch the colour mode as Airflow's own menu does."""
        changed = (
            "localStorage.theme = arguments[0];"
            "dispatchEvent(new StorageEvent('storage', {key: 'theme', newValue: arguments[0]}))"
        )
        self.driver.execute_script(changed, name)
        self.wait.until(lambda driver: name in driver.execute_script("return document.documentElement.className"))
        moving = "return document.getAnimations().some((one) => one instanceof CSSTransition)"
        self.wait.until(lambda driver: not driver.execute_script(moving), "the colours do not settle")

    def axe(self, rules: Sequence[str] = ()) -> list[str]:
        """Return the violations of these rules of axe-core; of all rules without names."""
        if not self.driver.execute_script("return Boolean(globalThis.axe)"):
            self.driver.execute_script(AXE.read_text(encoding="utf-8"))
        found: list[str] = self.driver.execute_async_script(RUN_AXE, {"runOnly": [*rules]} if rules else {})
        return found

    def errors(self) -> list[str]:
        """Return the errors on the console, but for replies of Airflow's own routes."""
        said = [entry["message"] for entry in self.driver.get_log("browser") if entry["level"] == "SEVERE"]
        return [one for one in said if "/assistant/" in one or "Failed to load resource" not in one]
