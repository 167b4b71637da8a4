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

from tests.integration.ui import data
from tests.integration.ui.conftest import StubPages

pytestmark = pytest.mark.system

IMAGES = Path(__file__).parents[3] / "docs" / "images"
WIDTH, HEIGHT = 1280, 1100
# Smallest width of a window in which Airflow's own UI can be used.
NARROW = 600
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


@pytest.mark.slow
def test_nothing_overflows(pages: StubPages) -> None:
    long = "kb.a_source_with_a_name_that_nobody_can_read_" * 4
    entries = data.paged([data.entry(1, label=long, source=long, error=long)])
    found = {}
    for name, path in data.PAGES.items():
        pages.show(path, ambiguous=entries)
        for width in (WIDTH, NARROW):
            pages.driver.set_window_size(width, HEIGHT)
            pages.wait.until(lambda driver, width=width: driver.execute_script("return outerWidth") == width)
            with suppress(TimeoutException):  # charts follow the window a moment later
                pages.wait.until(lambda driver: not driver.execute_script(OVERFLOWING))
            found[f"{name}, {width}"] = pages.driver.execute_script(OVERFLOWING)

    assert {name: elements for name, elements in found.items() if elements} == {}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "page", "theme"),
    [
        ("ui-page.png", "page-loads", "light"),
        ("ui-quality.png", "page-quality", "light"),
        ("ui-usage-dark.png", "page-usage", "dark"),
    ],
)
def test_pictures_of_the_page(pages: StubPages, images: Path, name: str, page: str, theme: str) -> None:
    pages.driver.set_window_size(WIDTH, HEIGHT)
    pages.theme(theme)
    pages.show(data.PAGES[page])
    pages.driver.execute_script("document.activeElement.blur()")
    assert pages.driver.save_screenshot(str(images / name))
    pages.theme("light")


@pytest.mark.slow
def test_picture_of_settling(pages: StubPages, images: Path) -> None:
    pages.driver.set_window_size(WIDTH, HEIGHT)
    pages.show(data.PAGES["page-settle"])
    for box in pages.all("input[type=checkbox]")[:2]:
        box.click()
    pages.button("Mark 2 as created").click()
    pages.until("2 entries would be settled as created")
    assert pages.driver.save_screenshot(str(images / "ui-settle.png"))
    pages.button("Cancel").click()


@pytest.mark.slow
@pytest.mark.parametrize(("name", "page"), [("ui-task.png", "tab-load_faq"), ("ui-task-batch.png", "tab-ask")])
def test_pictures_of_the_tab(pages: StubPages, images: Path, name: str, page: str) -> None:
    """Only the tab: the page around it has no task in the stub."""
    pages.driver.set_window_size(WIDTH, HEIGHT + 300)
    pages.show(data.PAGES[page])
    assert pages.driver.find_element("css selector", ".assistant").screenshot(str(images / name))


@pytest.mark.slow
def test_picture_of_the_panel(pages: StubPages, images: Path) -> None:
    pages.driver.set_window_size(WIDTH, HEIGHT)
    pages.show("")
    assert pages.driver.find_element("css selector", ".assistant").screenshot(str(images / "ui-panel.png"))
