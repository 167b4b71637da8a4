"""The changelog follows Keep a Changelog and Semantic Versioning."""

from __future__ import annotations

import datetime
import re
import tomllib
from itertools import pairwise

from packaging.version import Version

from airflow_provider_assistant import __version__
from airflow_provider_assistant.provider_info import get_provider_info
from tests.docs.pages import ROOT

TEXT = (ROOT / "CHANGELOG.md").read_text()
KINDS = {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security", "Known limits"}
SEMANTIC = re.compile(r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z.-]+)?")
RELEASE = re.compile(r"## \[?(?P<version>[^\s\]]+)\]? - (?P<date>\d{4}-\d\d-\d\d|Unreleased)")


def releases() -> list[tuple[str, str]]:
    headings = [line for line in TEXT.splitlines() if line.startswith("## ")]
    found = [RELEASE.fullmatch(heading) for heading in headings]
    assert all(found), [heading for heading, match in zip(headings, found, strict=True) if not match]
    return [(match["version"], match["date"]) for match in found if match]


def test_the_version_is_semantic_and_has_an_entry() -> None:
    assert SEMANTIC.fullmatch(__version__)
    assert releases()[0][0] == __version__
    assert get_provider_info()["versions"][0] == __version__


def test_releases_have_versions_and_dates_the_newest_first() -> None:
    assert all(SEMANTIC.fullmatch(version) for version, _ in releases())
    assert all(Version(newer) > Version(older) for (newer, _), (older, _) in pairwise(releases()))
    dates = [date for _, date in releases()]
    assert "Unreleased" not in dates[1:]
    written = [datetime.date.fromisoformat(date) for date in dates if date != "Unreleased"]
    assert written == sorted(written, reverse=True)


def test_changes_stand_under_the_kinds_that_there_are() -> None:
    for release in re.split(r"^## ", TEXT, flags=re.MULTILINE)[1:]:
        kinds = re.findall(r"^### (.+)$", release, re.MULTILINE)
        assert kinds
        assert set(kinds) <= KINDS
        assert len(kinds) == len(set(kinds))
        for part in re.split(r"^### .+$", release, flags=re.MULTILINE)[1:]:
            assert re.search(r"^- \S", part, re.MULTILINE), "a kind of change without a change"


def test_the_packaging_says_the_same_as_the_code() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert project["project"]["dynamic"] == ["readme", "version"]
    assert project["tool"]["hatch"]["version"]["path"] == "airflow_provider_assistant/__init__.py"
    stage = next(name for name in project["project"]["classifiers"] if name.startswith("Development Status"))
    assert ("4 - Beta" in stage) == (Version(__version__).major == 0)
