"""What robots.txt allows, after RFC 9309."""

from __future__ import annotations

import re

# The name to which rules in robots.txt may refer.
NAME = "airflow-provider-assistant"
# A line that says for whom the next rules are. Groups: all before the name, and the name.
_USER_AGENT_LINE = re.compile(r"(\s*user[-\s]*agent\s*:?\s*)([^\s#]+).*", re.IGNORECASE)


class Robots:
    """
    The rules of a robots.txt for this package.

    :param text: The file. Empty: everything is allowed.
    """

    def __init__(self, text: str = "") -> None:
        from protego import Protego

        lines = text.removeprefix("\ufeff").splitlines()
        simplified_lines = [_USER_AGENT_LINE.sub(_with_our_name, line) for line in lines]
        self._rules = Protego.parse("\n".join(simplified_lines))
        self.crawl_delay = self._rules.crawl_delay(NAME) or 0.0
        """Seconds between requests; 0 if the file does not say."""
        self.sitemaps = list(self._rules.sitemaps)
        """Addresses of sitemaps, as written."""

    def allows(self, url: str) -> bool:
        """
        Return whether a page may be read.

        The longest rule decides, and of equal ones the one that allows.
        """
        return self._rules.can_fetch(url, NAME)


def _with_our_name(line: re.Match[str]) -> str:
    """
    Return a line that says for whom the next rules are, with our name, that of everybody, or "other".

    Protego takes the start of our name for our name, but not our name with a version. It keeps a copy of each rule for
    each name, so a file of a megabyte with many names would need gigabytes.
    """
    beginning, name_and_version = line.groups()
    name, _, _ = name_and_version.lower().partition("/")
    if name not in {NAME, "*"}:
        name = "other"
    return beginning + name
