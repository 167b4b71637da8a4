"""A browser on the pages in Airflow's own UI, whose API server is a stub with prepared replies."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from selenium.webdriver import Chrome

from tests.integration.ui import data
from tests.live.chromium import chromium
from tests.live.pages import Pages
from tests.live.stub_host import StubHost


class StubPages(Pages):
    """The UI in a browser, with the replies of a stub."""

    def __init__(self, driver: Chrome, host: StubHost) -> None:
        super().__init__(driver, host.url)
        self.host = host

    def show(self, path: str, replies: dict[str, Any] | None = None, **changes: Any) -> str:
        """Open a page and return its text as soon as all data are there."""
        self.host.reply({**(data.filled() if replies is None else replies), **changes})
        return self.open(path)

    def width(self, width: int | None) -> None:
        """Show the pages in a width that a window cannot have; None: in that of the window."""
        if width is None:
            self.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
            return
        size = {"width": width, "height": 1100, "deviceScaleFactor": 1, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)

    def module(self, name: str, expression: str, *arguments: Any) -> Any:
        """Evaluate an expression with the module ``m`` and the list ``a``."""
        script = (
            "const done = arguments[2];"
            "import(new URL(`assistant/static/${arguments[0]}`, document.baseURI).href)"
            f".then((m) => {{ const a = arguments[1]; done({expression}); }}, (error) => done(String(error)))"
        )
        return self.driver.execute_async_script(script, name, list(arguments))


# Each new browser costs as much as ten tests. Per package: a browser would slow down the tests of other packages.
@pytest.fixture(scope="package")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chrome]:
    driver = chromium(tmp_path_factory.mktemp("chromium"), "--window-size=1440,1500")
    yield driver
    driver.quit()


@pytest.fixture(scope="package")
def opened(driver: Chrome) -> Iterator[StubPages]:
    """Airflow's UI with a path prefix, outside which nothing may be requested."""
    with StubHost("/team-a/airflow/") as host:
        pages = StubPages(driver, host)
        pages.start()
        yield pages


@pytest.fixture
def pages(opened: StubPages) -> Iterator[StubPages]:
    """Airflow's UI, which must say nothing on the console."""
    opened.errors()
    yield opened
    assert opened.errors() == []
