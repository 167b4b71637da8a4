"""Read a reply and its further pages, for an export."""

from __future__ import annotations

import datetime
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from airflow_provider_assistant.api.read_pages import next_query, unread_items
from airflow_provider_assistant.api.replies import ApiReply
from airflow_provider_assistant.lake import records
from airflow_provider_assistant.lake.flattening import with_digits
from airflow_provider_assistant.texts import counted

# A service whose pages have no end would otherwise keep the task for ever.
MAX_PAGES = 10_000

log = logging.getLogger(__name__)

Send: TypeAlias = Callable[[Mapping[str, str]], ApiReply]


@dataclass(frozen=True, slots=True)
class ListPlace:
    """
    Where the list of a reply is.

    :param path: Dotted path. None to look for it by name.
    :param names: Names of its field, the best one first.
    :param any_name: Whether its field may have any other name.
    """

    path: str | None
    names: Sequence[str]
    any_name: bool

    def find(self, value: Any) -> records.ItemList | None:
        """
        Return the list of a reply; None if it has none.

        :raises AssistantResponseError: There is no list at the path.
        """
        return records.find_items(value, self.path, self.names, any_name=self.any_name)


@dataclass(frozen=True, slots=True)
class Reading:
    """
    A reply, with the items of all its pages.

    :param captured_at: Time at which the first page arrived.
    :param rest: The first page without its list; None if it is only the list.
    :param items: The list of all pages; None if the reply has no list.
    :param pages: Number of pages.
    :param unread: Number of items that the service says that there are, and did not send.
    """

    captured_at: datetime.datetime
    rest: Any
    items: records.ItemList | None
    pages: int
    unread: int


def read_all(send: Send, query: Mapping[str, str], place: ListPlace, *, label: str, with_emails: bool) -> Reading:
    """
    Read a reply and the pages that follow it.

    :param send: Function that sends the request with a query.
    :param query: Query of the first page.
    :param label: Name of the read, for messages.
    :param with_emails: Whether e-mail addresses are kept. If not, labels replace them.
    :raises AssistantResponseError: There is no list at the path of the place.
    """
    replies = _pages(send, query, label)
    first = next(replies)
    captured_at = datetime.datetime.now(datetime.UTC)
    value = _value(first, with_emails=with_emails)
    found = place.find(value)
    if found is None:
        return Reading(captured_at, value, None, 1, 0)
    pages = 1
    last = first
    for last in replies:
        pages += 1
        page = place.find(_value(last, with_emails=with_emails))
        if page is not None:
            found.items.extend(page.items)
    unread = unread_items(last.raw, len(found.items), pages)
    if unread:
        log.warning("The service says that %s has at least %s than it sent.", label, counted(unread, "more item"))
    rest = records.without_items(value, found.path)
    return Reading(captured_at, rest, found, pages, unread)


def _value(reply: ApiReply, *, with_emails: bool) -> Any:
    value = with_digits(reply.raw_json or "null")
    if with_emails:
        return value
    return records.with_labels(value)


def _pages(send: Send, first_query: Mapping[str, str], label: str) -> Iterator[ApiReply]:
    query = dict(first_query)
    before: ApiReply | None = None
    for _ in range(MAX_PAGES):
        reply = send(query)
        if before is not None and reply.raw == before.raw:
            log.warning("The service sent the same page of %s again, which ends the list.", label)
            return
        yield reply
        following = next_query(reply, first_query)
        # Some services repeat the cursor of the page itself.
        if following is None or following == query:
            return
        query, before = following, reply
    log.warning("%s has more than %s; the others were not read.", label, counted(MAX_PAGES, "page"))
