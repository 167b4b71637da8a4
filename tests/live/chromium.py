"""Headless Chromium for tests of web pages."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING
from unittest import mock

import pytest
from selenium.webdriver import Chrome, ChromeOptions, ChromeService

from tests.live.process import free_port

if TYPE_CHECKING:
    from pathlib import Path


def program(*names: str) -> str:
    """Return the path of a program under the first of its names that is installed."""
    for name in names:
        if path := shutil.which(name):
            return path
    pytest.fail(
        f"{names[0]} is not installed, and this test looks at a page in a browser. "
        "On Debian: make browser, or apt-get install chromium chromium-driver."
    )


def chromium(home: Path, *arguments: str, requests: bool = False) -> Chrome:
    """
    Start it.

    :param home: Folder for its profile and log.
    :param arguments: More arguments of its command line.
    :param requests: Whether to log all requests, as ``get_log("performance")``. This costs processor time.
    """
    options = ChromeOptions()
    options.binary_location = program("chromium", "chromium-browser", "google-chrome")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"} | ({"performance": "ALL"} if requests else {}))
    for argument in (
        "--headless=new",
        "--no-sandbox",  # required for root in a container
        "--disable-dev-shm-usage",
        "--no-proxy-server",
        "--hide-scrollbars",
        "--lang=en-US",
        f"--user-data-dir={home / 'browser'}",
        *arguments,
    ):
        options.add_argument(argument)
    service = ChromeService(program("chromedriver"), port=free_port(), log_output=str(home / "chromedriver.log"))
    # A proxy of the environment must not get the requests to the driver.
    with mock.patch.dict(os.environ, NO_PROXY="127.0.0.1,localhost", no_proxy="127.0.0.1,localhost"):
        return Chrome(options=options, service=service)
