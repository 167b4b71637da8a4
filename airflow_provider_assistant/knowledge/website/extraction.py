"""The main text of a page."""

from __future__ import annotations

import importlib.util
from typing import NamedTuple, Self

from airflow_provider_assistant.exceptions import AssistantInputError, AssistantTimeoutError
from airflow_provider_assistant.parsing.child import PAGE, ChildParser
from airflow_provider_assistant.parsing.limits import UnreadableFileError

# The modules that a website needs.
LIBRARIES = ("protego", "trafilatura", "webencodings")
# A page of 100 kB takes a tenth of a second.
PAGE_SECONDS = 60.0


class PageText(NamedTuple):
    """
    What a page says.

    :param content: Its main text, as Markdown.
    :param category: Its first category.
    :param date: When it was published, in ISO format.
    """

    title: str | None
    content: str
    category: str | None
    date: str | None


class Extractor:
    """
    Extracts the main text of pages with trafilatura, in a child process. Use it as a context manager.

    :param seconds: Most processor time for a page, in seconds. Default: 60.
    :raises AssistantInputError: A library of the extra ``website`` is not installed.
    """

    def __init__(self, seconds: float = PAGE_SECONDS) -> None:
        for library in LIBRARIES:
            if not importlib.util.find_spec(library):
                raise AssistantInputError(
                    f"{library} is not installed",
                    todo="Run pip install 'airflow-provider-assistant[website]'.",
                    field="source",
                )
        self._parser = ChildParser(seconds=seconds)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._parser.close()

    def text(self, html: bytes, content_type: str, url: str) -> PageText | None:
        """
        Return the main text of a page, without navigation, headers and footers.

        :param url: Address of the page, to which relative links are relative.
        :return: The text; None if the page has none.
        :raises AssistantTimeoutError: It takes too long or too much memory, or trafilatura fails.
        """
        try:
            parsed = self._parser.parse(PAGE, html, url=url, content_type=content_type)
        except UnreadableFileError as error:
            raise AssistantTimeoutError(
                f"the main text of {url} cannot be extracted: the page {error}",
                todo="Leave the page out with include=….",
            ) from None
        if "text" not in parsed:
            return None
        return PageText(
            title=parsed.get("title"),
            content=parsed["text"],
            category=parsed.get("category"),
            date=parsed.get("date"),
        )
