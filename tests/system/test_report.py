"""
The report of an evaluation in a browser: safety with hostile texts, and layout.

Set ``UPDATE_IMAGES=1`` to update the screenshots of the documentation.
"""

from __future__ import annotations

import base64
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_assistant.evaluation.report import render
from tests.live.chromium import chromium
from tests.live.pages import AXE, RUN_AXE
from tests.unit.evaluation.report.examples import CANARY, hostile, nightly

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.system

IMAGES = Path(__file__).parents[2] / "docs" / "images"
PHONE, DESKTOP = 360, 1200
OVERFLOWING = """
const width = document.documentElement.clientWidth;
return [...document.body.querySelectorAll('*')]
    .filter(one => !one.closest('.scroll, .hidden, thead') && one.getBoundingClientRect().right > width + 1)
    .map(one => one.outerHTML.slice(0, 120))
"""


class Viewer:
    """A browser without a network."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.driver = chromium(home, "--host-resolver-rules=MAP * ~NOTFOUND", requests=True)

    def show(self, html: str, *, width: int = DESKTOP, scheme: str = "light") -> None:
        """Open a report."""
        path = self.home / "report.html"
        path.write_text(html, encoding="utf-8")
        self.command(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=800,
            deviceScaleFactor=1,
            mobile=width == PHONE,
        )
        self.command("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.driver.get("about:blank")  # ends the requests of the last page
        for kind in ("performance", "browser"):
            self.driver.get_log(kind)
        self.driver.get(path.as_uri())

    def command(self, name: str, **arguments: Any) -> Any:
        return self.driver.execute_cdp_cmd(name, arguments)

    def run(self, script: str) -> Any:
        return self.driver.execute_script(script)

    def requests(self) -> list[str]:
        """Return the requests of the page since it was opened, including the page itself."""
        messages = [json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance")]
        return [one["params"]["request"]["url"] for one in messages if one["method"] == "Network.requestWillBeSent"]

    def picture(self, path: Path, *, top: str, height: int) -> None:
        """Save a screenshot from an element downwards."""
        place = self.run(f"return document.querySelector('{top}').getBoundingClientRect().top + scrollY - 24")
        width = self.run("return innerWidth")
        clip = {"x": 0, "y": max(0, place), "width": width, "height": height, "scale": 1}
        taken = self.command("Page.captureScreenshot", format="png", clip=clip, captureBeyondViewport=True)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(base64.b64decode(taken["data"]))


@pytest.fixture(scope="module")
def viewer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Viewer]:
    viewer = Viewer(tmp_path_factory.mktemp("chromium"))
    yield viewer
    viewer.driver.quit()


@pytest.fixture(scope="module")
def report() -> str:
    return render(nightly())


@pytest.fixture(scope="module")
def hostile_report() -> str:
    return render(hostile())


def without_policy(html: str) -> str:
    """Remove the policy that forbids scripts, so that only the escaping protects the page."""
    start = html.index('<meta http-equiv="Content-Security-Policy"')
    return html[:start] + html[html.index(">", start) + 1 :]


@pytest.mark.promise("security", "Hostile texts in a report run nothing and load nothing.")
@pytest.mark.parametrize("policy", [True, False], ids=["with policy", "escaping alone"])
def test_hostile_texts_run_nothing_and_load_nothing(viewer: Viewer, hostile_report: str, policy: bool) -> None:
    viewer.show(hostile_report if policy else without_policy(hostile_report))
    assert viewer.run(f"return typeof window.{CANARY}") == "undefined"
    assert viewer.run("return document.scripts.length + document.images.length") == 0
    assert viewer.run("return [...document.links].every(link => link.getAttribute('href').startsWith('#'))")
    handlers = "[...document.querySelectorAll('*')].flatMap(one => one.getAttributeNames()).filter(n => /^on/.test(n))"
    assert viewer.run(f"return {handlers}") == []
    assert [url for url in viewer.requests() if not url.endswith("/report.html")] == []
    assert viewer.driver.get_log("browser") == []


def test_the_canary_sings_if_a_text_is_not_escaped(viewer: Viewer) -> None:
    viewer.show(f"<!DOCTYPE html><title>t</title><script>window.{CANARY} = 1</script><img src=https://evil.invalid/x>")
    assert viewer.run(f"return typeof window.{CANARY}") == "number"
    assert any("evil.invalid" in url for url in viewer.requests())


@pytest.mark.parametrize("which", ["report", "hostile_report"])
def test_a_phone_need_not_scroll_sideways(viewer: Viewer, which: str, request: pytest.FixtureRequest) -> None:
    viewer.show(request.getfixturevalue(which), width=PHONE)
    assert viewer.run("return innerWidth") == PHONE
    assert viewer.run("return document.documentElement.scrollWidth") == PHONE
    assert viewer.run(OVERFLOWING) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(viewer: Viewer, scheme: str) -> None:
    viewer.show(render(nightly(40)), scheme=scheme)
    viewer.run(AXE.read_text(encoding="utf-8"))
    assert viewer.driver.execute_async_script(RUN_AXE.replace('".assistant"', "document"), {}) == []


def test_pictures_follow_into_dark_mode(viewer: Viewer, report: str) -> None:
    colours = []
    for scheme in ("light", "dark"):
        viewer.show(report, scheme=scheme)
        colours.append(viewer.run("return getComputedStyle(document.querySelector('svg circle')).fill"))
    assert len(set(colours)) == 2


@pytest.mark.nightly
def test_the_picture_of_the_documentation(viewer: Viewer, report: str, tmp_path: Path) -> None:
    images = IMAGES if os.environ.get("UPDATE_IMAGES") else tmp_path
    viewer.show(report)
    viewer.picture(images / "evaluation-report-verdict.png", top="header", height=1160)
    assert 5_000 < (images / "evaluation-report-verdict.png").stat().st_size < 200_000
