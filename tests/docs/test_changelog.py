"""The changelog follows Keep a Changelog and Semantic Versioning."""

from __future__ import annotations

import re
from itertools import pairwise

from packaging.version import Version

from airflow_provider_assistant import __version__
from airflow_provider_assistant.provider_info import get_provider_info
from tests.docs.pages import ROOT

TEXT = (ROOT / "CHANGELOG.md").read_text()
KINDS = {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security", "Known limits"}
SEMANTIC = re.compile(r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z.-]+)?")
RELEASE = re.compile(r"^## \[?(?P<version>[^\s\]]+)\]? - (?P<date>\d{4}-\d\d-\d\d|Unreleased)$", re.MULTILINE)


def test_releases_have_versions_and_dates_the_newest_first() -> None:
    releases = RELEASE.findall(TEXT)
    assert len(releases) == len(re.findall("^## ", TEXT, re.MULTILINE))
    assert releases[0][0] == __version__ == get_provider_info()["versions"][0]
    assert all(SEMANTIC.fullmatch(version) for version, _ in releases)
    assert all(Version(newer[0]) > Version(older[0]) for newer, older in pairwise(releases))
    # "Unreleased" sorts after all dates.
    dates = [date for _, date in releases]
    assert dates == sorted(dates, reverse=True)
    assert "Unreleased" not in dates[1:]


def test_changes_are_below_known_kinds() -> None:
    for release in re.split(r"^## ", TEXT, flags=re.MULTILINE)[1:]:
        _, *parts = re.split(r"^### (.+)$", release, flags=re.MULTILINE)
        assert parts
        assert set(parts[::2]) <= KINDS
        assert len(parts[::2]) == len(set(parts[::2]))
        assert all(re.search(r"^- \S", text, re.MULTILINE) for text in parts[1::2]), "a kind without a change"
