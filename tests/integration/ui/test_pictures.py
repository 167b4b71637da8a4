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

from tests.integration.ui import data, extremes
from tests.integration.ui.conftest import StubPages

pytestmark = pytest.mark.system

IMAGES = Path(__file__).parents[3] / "docs" / "images"
WIDTH, HEIGHT = 1280, 1100
# Width of a phone.
NARROW = 390
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
VIEWS = data.PAGES


@pytest.mark.promise("pages", "The pages fit a phone and pass the rules of axe, with the longest names.")
@pytest.mark.parametrize(
    ("may_settle", "views"),
    [
        pytest.param(False, ["page-settle"], id="a view"),
        pytest.param(True, list(VIEWS), id="all views", marks=pytest.mark.nightly),
    ],
)
def test_everything_fits_and_can_be_read(opened: StubPages, may_settle: bool, views: list[str]) -> None:
    """With the longest names, and all rules of axe; in the second mode only contrast, because only it has colours."""
    replies = extremes.replies(may_settle=may_settle)
    found = {}

    def check(name: str) -> None:
        opened.driver.execute_script(OPEN)
        with suppress(TimeoutException):  # charts follow the window a moment later
            WebDriverWait(opened.driver, 2).until(lambda driver: not driver.execute_script(OVERFLOWING))
        found[name] = [*opened.driver.execute_script(OVERFLOWING), *opened.axe()]
        opened.theme("dark")
        found[f"{name}, dark"] = opened.axe(["color-contrast"])
        opened.theme("light")

    for width in (WIDTH, NARROW) if may_settle else (NARROW,):
        opened.width(width)
        for name in views:
            opened.show(VIEWS[name], replies)
            check(f"{name}, {width}")
        if may_settle:
            opened.show(VIEWS["page-settle"], replies)
            opened.button("Select all 5 on this page").click()
            opened.button("Mark 5 as created").click()
            opened.until("5 entries would be settled as created")
            check(f"dialog, {width}")
            opened.button("Cancel").click()
            opened.show(VIEWS["page-loads"], dict.fromkeys(replies, (500, {})))
            check(f"failed, {width}")
    opened.width(None)

    assert {name: problems for name, problems in found.items() if problems} == {}


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("name", "page", "theme"),
    [
        ("ui-page.png", "page-loads", "light"),
        ("ui-quality.png", "page-quality", "light"),
    ],
)
def test_pictures_of_the_page(pages: StubPages, images: Path, name: str, page: str, theme: str) -> None:
    pages.driver.set_window_size(WIDTH, HEIGHT)
    pages.theme(theme)
    pages.show(data.PAGES[page])
    pages.driver.execute_script("document.activeElement.blur()")
    assert pages.driver.save_screenshot(str(images / name))
    pages.theme("light")


@pytest.mark.nightly
def test_picture_of_settling(pages: StubPages, images: Path) -> None:
    pages.driver.set_window_size(WIDTH, HEIGHT)
    pages.show(data.PAGES["page-settle"])
    for box in pages.all("input[type=checkbox]")[:2]:
        box.click()
    pages.button("Mark 2 as created").click()
    pages.until("2 entries would be settled as created")
    assert pages.driver.save_screenshot(str(images / "ui-settle.png"))
    pages.button("Cancel").click()


@pytest.mark.nightly
@pytest.mark.parametrize(("name", "page"), [("ui-task.png", "tab-load_faq"), ("ui-task-batch.png", "tab-ask")])
def test_pictures_of_the_tab(pages: StubPages, images: Path, name: str, page: str) -> None:
    """Only the tab: the page around it has no task in the stub."""
    pages.driver.set_window_size(WIDTH, HEIGHT + 300)
    pages.show(data.PAGES[page])
    assert pages.driver.find_element("css selector", ".assistant").screenshot(str(images / name))
