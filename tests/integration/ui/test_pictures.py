"""
The layout of the pages.

Set ``UPDATE_IMAGES=1`` to update the screenshots of the documentation.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import pytest
from selenium.common.exceptions import TimeoutException
from selenium.webdriver.support.ui import WebDriverWait

from tests.integration.ui import data
from tests.integration.ui.conftest import StubPages

pytestmark = pytest.mark.system

IMAGES = Path(__file__).parents[3] / "docs" / "images"
# Pixels of a window and of a phone.
WIDTH, NARROW = 1280, 390
# Elements that are wider than the page, other than those within an area that scrolls.
OVERFLOWING = """
const page = document.querySelector(".assistant"), right = page.getBoundingClientRect().right + 1;
return [...page.querySelectorAll("*")].filter((one) => one.getBoundingClientRect().right > right
    && !one.closest(".scroll table") && one.getBoundingClientRect().width > 1)
    .map((one) => one.outerHTML.slice(0, 200));
"""


@pytest.fixture
def images(tmp_path: Path) -> Path:
    return IMAGES if os.environ.get("UPDATE_IMAGES") else tmp_path


# Opens all that is closed: the numbers of charts, and the rest of long texts.
OPEN = """
for (const one of document.querySelectorAll(".assistant summary, .assistant .more[aria-expanded=false]")) one.click();
"""
VIEWS = {"page": data.PAGE, "stale": f"{data.PAGE}?list=stale&site=help", **data.TABS}


@pytest.mark.promise("pages", "The pages fit a phone and pass the rules of axe, with the longest names.")
@pytest.mark.parametrize(
    ("width", "views"),
    [
        pytest.param(NARROW, ["page", "load_faq"], id="phone"),
        pytest.param(NARROW, list(VIEWS), id="phone, all", marks=pytest.mark.nightly),
        pytest.param(WIDTH, list(VIEWS), id="wide, all", marks=pytest.mark.nightly),
    ],
)
def test_everything_fits_and_can_be_read(opened: StubPages, width: int, views: list[str]) -> None:
    """All rules of axe in light; in dark only contrast, because only it has colours."""
    replies = data.extremes()
    found = {}

    def check(name: str) -> None:
        opened.driver.execute_script(OPEN)
        with suppress(TimeoutException):  # charts follow the window a moment later
            WebDriverWait(opened.driver, 2).until(lambda driver: not driver.execute_script(OVERFLOWING))
        found[name] = [*opened.driver.execute_script(OVERFLOWING), *opened.axe()]
        opened.theme("dark")
        found[f"{name}, dark"] = opened.axe(["color-contrast"])
        opened.theme("light")

    opened.width(width)
    try:
        for name in views:
            opened.show(VIEWS[name], replies)
            check(name)
        opened.show(data.PAGE)
        opened.button("Select all 6 on this page").click()
        opened.button("Mark 6 as created").click()
        opened.until("6 entries would be settled as created")
        check("dialog")
        opened.button("Cancel").click()
        opened.show(data.PAGE, dict.fromkeys(replies, (500, {})))
        check("failed")
    finally:
        opened.width(None)
    assert {name: problems for name, problems in found.items() if problems} == {}


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("name", "path", "height"),
    [("ui-page.png", data.PAGE, 1700), ("ui-task.png", data.TABS["load_faq"], 900)],
)
def test_pictures(pages: StubPages, images: Path, name: str, path: str, height: int) -> None:
    """Only what this package renders: the page around it has no task in the stub."""
    pages.driver.set_window_size(WIDTH, height)
    pages.show(path)
    pages.driver.execute_script("document.activeElement.blur()")
    assert pages.driver.find_element("css selector", ".assistant").screenshot(str(images / name))
