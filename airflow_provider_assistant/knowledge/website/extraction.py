"""The main text of a page."""

from __future__ import annotations

import importlib.util
import json
from importlib.metadata import version
from typing import NamedTuple, Self

from airflow_provider_assistant import __version__
from airflow_provider_assistant.exceptions import AssistantInputError, AssistantTimeoutError
from airflow_provider_assistant.knowledge.website.fetcher import Skipped
from airflow_provider_assistant.parsing.child import LIBRARIES, PAGE, ChildParser
from airflow_provider_assistant.parsing.limits import UnreadableFileError

_RULES_WITH_VALUE = frozenset({"max-snippet", "max-image-preview", "max-video-preview", "unavailable_after"})
_DISTRIBUTIONS = ("beautifulsoup4", "lxml", "markdownify")
# A page of 100 kB takes a second.
PAGE_SECONDS = 60.0


class PageText(NamedTuple):
    """
    What a page says.

    :param content: Its main text, as Markdown.
    :param date: When it was changed or published, in ISO format.
    :param canonical: The address that the page gives itself.
    :param language: The language that it names, such as ``en`` or ``pt-BR``.
    """

    title: str | None
    content: str
    category: str | None = None
    date: str | None = None
    canonical: str | None = None
    language: str | None = None


class Extractor:
    """
    Extracts the main text of pages in a child process. Use it as a context manager.

    :param select: Selector of CSS for the main part; empty to look for it.
    :param remove: Selector of CSS for parts to remove.
    :param include_noindex: Whether to read pages that search engines must not show.
    :param seconds: Most processor time for a page, in seconds. Default: 60.
    :raises AssistantInputError: A library of the extra ``website`` is not installed, or a selector is invalid.
    """

    def __init__(
        self,
        *,
        select: str = "",
        remove: str = "",
        include_noindex: bool = False,
        seconds: float = PAGE_SECONDS,
    ) -> None:
        for library in ("protego", *LIBRARIES[".html"]):
            if not importlib.util.find_spec(library):
                raise AssistantInputError(
                    f"{library} is not installed",
                    todo="Run pip install 'airflow-provider-assistant[website]'.",
                    field="source",
                )
        _check_selector(select, "select")
        _check_selector(remove, "remove")
        self._selectors = {"select": select, "remove": remove}
        self._include_noindex = include_noindex
        self._parser = ChildParser(seconds=seconds)

    @property
    def version(self) -> str:
        """What the text of a page depends on: versions of the package and of its libraries, and the selectors."""
        versions = [f"{name} {version(name)}" for name in _DISTRIBUTIONS]
        return json.dumps([__version__, *versions, self._selectors, self._include_noindex])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._parser.close()

    def check_robots(self, robots: str) -> None:
        """
        Check that search engines may show a page.

        :param robots: See :func:`is_noindex`.
        :raises Skipped: They must not.
        """
        if is_noindex(robots) and not self._include_noindex:
            raise Skipped("asks not to be indexed", is_expected=True)

    def text(self, html: bytes, content_type: str, url: str) -> PageText:
        """
        Return the main text of a page, without navigation, headers and footers.

        :param url: Address of the page, to which relative links are relative.
        :raises Skipped: The page is not for search engines, leads to another one, or has no text.
        :raises AssistantTimeoutError: It takes too long or too much memory.
        """
        try:
            details = {"url": url, "content_type": content_type, **self._selectors}
            parsed = self._parser.parse(PAGE, html, **details)
        except UnreadableFileError as error:
            raise AssistantTimeoutError(
                f"the main text of {url} cannot be extracted: the page {error}",
                todo="Leave the page out with include=….",
            ) from None
        self.check_robots(parsed.get("robots", ""))
        if "redirect" in parsed:
            raise Skipped("leads to another page", is_expected=True)
        if "obstacle" in parsed:
            raise Skipped(parsed["obstacle"])
        if not parsed.get("text", "").strip():
            raise Skipped("has no main text")
        return PageText(
            title=parsed.get("title"),
            content=parsed["text"],
            category=parsed.get("category"),
            date=parsed.get("date"),
            canonical=parsed.get("url"),
            language=parsed.get("language"),
        )


def is_noindex(robots: str) -> bool:
    """
    Return whether search engines must not show a page.

    :param robots: Content of the meta tag ``robots``, or of the headers ``X-Robots-Tag``, one a line. Their rules may
        begin with the name of a crawler; those of other crawlers than Google's do not count.
    """
    for line in robots.lower().splitlines():
        crawler = ""
        for part in line.split(","):
            name, colon, rule = part.partition(":")
            # Other rules have a colon, too, such as max-snippet:20.
            if colon and name.strip() not in _RULES_WITH_VALUE:
                crawler = name.strip()
            else:
                rule = part
            if rule.strip() in {"noindex", "none"} and crawler in {"", "robots", "googlebot"}:
                return True
    return False


def _check_selector(selector: str, name: str) -> None:
    import soupsieve

    try:
        soupsieve.compile(selector or "main")
    except soupsieve.SelectorSyntaxError as error:
        raise AssistantInputError(
            f"{name}={selector!r} is not a selector of CSS: {str(error).splitlines()[0]}",
            field=name,
        ) from None
