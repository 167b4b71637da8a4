"""What the list of a site's documents shows, and what its connection should say about it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any, Literal, TypeAlias

from airflow_provider_assistant.api.document_pages import DocumentPages
from airflow_provider_assistant.api.document_routes import DocumentRoutes, ListRoute, is_missing_route, path_of
from airflow_provider_assistant.api.document_state import DocumentWords, status_fields
from airflow_provider_assistant.api.json_objects import LEVELS, text_of
from airflow_provider_assistant.api.site_documents import (
    CONTENT_FIELDS,
    CREATED_FIELDS,
    ID_FIELDS,
    QUESTION_FIELDS,
    TITLE_FIELDS,
    UPDATED_FIELDS,
    SiteDocument,
    field_of,
    items_of,
    value_at,
)
from airflow_provider_assistant.exceptions import AssistantAPIError, AssistantResponseError
from airflow_provider_assistant.hooks.assistant import AssistantHook
from airflow_provider_assistant.texts import counted

# "absent": the list does not show it, and loads can do without it.
Verdict: TypeAlias = Literal["ok", "problem", "absent"]
# Maximum number of status words and fields that a line names.
NAMED = 12
# Longest status word of a guess.
SHORT = 30


@dataclass(frozen=True, slots=True)
class CheckResult:
    """
    One line of the check.

    :param detail: What was found, and what to do about a problem.
    """

    step: str
    verdict: Verdict
    detail: str
    seconds: float | None = None


@dataclass(slots=True)
class ListReport:
    """
    What the list shows.

    :param routes: The routes, with the fields that were found under other names.
    :param is_readable: Whether documents can be recognised in it.
    :param states: Number of documents by state.
    :param unknown_words: Number of documents by status word whose meaning is not known.
    """

    routes: DocumentRoutes
    results: list[CheckResult] = field(default_factory=list)
    is_readable: bool = False
    documents: int = 0
    states: Counter[str] = field(default_factory=Counter)
    unknown_words: Counter[str] = field(default_factory=Counter)

    def as_dict(self) -> dict[str, Any]:
        """Return the report as plain JSON types, without the routes."""
        return {
            "results": [asdict(result) for result in self.results],
            "documents": self.documents,
            "states": dict(self.states),
            "unknown_words": dict(self.unknown_words),
        }


def check_list(hook: AssistantHook, routes: DocumentRoutes) -> ListReport:
    """
    Read the list of the hook's site, and return what it shows.

    :param routes: Routes to check.
    :raises AssistantError: The list cannot be read for a reason that has nothing to do with its routes.
    """
    report = ListReport(routes)
    route = routes.list
    if route is None:
        detail = "The connection says that the service has no list (list is null)."
        report.results.append(CheckResult("list", "problem", detail))
        return report
    path = path_of(route.path, hook.resolve_site_id())
    try:
        raw = hook.call(route.method, path).raw
    except AssistantAPIError as error:
        if not is_missing_route(error):
            raise
        detail = (
            f"{route.method} {path} answered {error.status}: the service does not have this route, or does not know "
            "the site. Set list.path, or list to null."
        )
        report.results.append(CheckResult("list", "problem", detail))
        return report
    route, results = understood_list(route, routes.words, raw)
    report.routes = routes.changed(list=route)
    report.results += results
    if any(result.verdict == "problem" and result.step in {"list", "id"} for result in results):
        return report
    report.is_readable = True
    _read_all(hook, report)
    return report


def _read_all(hook: AssistantHook, report: ListReport) -> None:
    """Read all pages, and add paging, number and states."""
    pages = DocumentPages(hook.resolve_site_id(), report.routes)
    try:
        for document in listed(hook, pages):
            report.documents += 1
            report.states[document.state] += 1
            if document.state == "other":
                report.unknown_words[document.status or ""] += 1
    except AssistantResponseError as error:
        report.results.append(CheckResult("paging", "problem", str(error)))
        return
    detail = f"{pages.understood}; {counted(report.documents, 'document')}"
    report.results.append(CheckResult("paging", "ok", detail))
    if report.documents:
        report.results.append(_states(report))


def listed(hook: AssistantHook, pages: DocumentPages) -> Iterator[SiteDocument]:
    """Yield the documents of a list, page by page."""
    while pages.call is not None:
        try:
            page = hook.send(pages.call)
        except AssistantAPIError as error:
            pages.failed(error)
        else:
            yield from pages.take(page)


def _states(report: ListReport) -> CheckResult:
    counts = ", ".join(f"{count} {state}" for state, count in report.states.most_common())
    if report.states["unknown"] == report.documents:
        return CheckResult("states", "problem", f"{counts}: whether documents are in use cannot be seen.")
    if not report.unknown_words:
        return CheckResult("states", "ok", counts)
    words = ", ".join(repr(word) for word, _ in report.unknown_words.most_common(NAMED))
    detail = (
        f"{counts}. These words are not known: {words}. Add each to active_words, draft_words, processing_words or "
        "failed_words."
    )
    return CheckResult("states", "problem", detail)


def understood_list(route: ListRoute, words: DocumentWords, raw: Any) -> tuple[ListRoute, list[CheckResult]]:
    """
    Return what the first page of a list shows.

    :param raw: The reply as received.
    :return: The route, with the fields that were found under other names, and a line per field.
    """
    route, result = _list_field(route, raw)
    results = [result]
    items = items_of(route, raw)
    if result.verdict == "problem" or items is None:
        return route, results
    objects = [item for item in items if isinstance(item, Mapping)]
    if not objects:
        return route, results
    for name, usual, guess in (
        ("id", ID_FIELDS, _looks_like_id),
        ("title", TITLE_FIELDS, None),
        ("status", (), _looks_like_status),
        ("created_at", CREATED_FIELDS, _looks_like_time),
        ("updated_at", UPDATED_FIELDS, None),
        ("content", CONTENT_FIELDS, None),
        ("question", QUESTION_FIELDS, None),
    ):
        found = _fields_of(name, route, usual, words, objects)
        if not found and guess:
            guessed = _guessed(objects, guess)
            if guessed:
                route = route.model_copy(update={name: guessed})
                detail = f"not in a usual field; {guessed!r} looks like it (list.{name})"
                results.append(CheckResult(name, "ok", detail))
                continue
        results.append(_field_result(name, found, objects))
    return route, results


def _list_field(route: ListRoute, raw: Any) -> tuple[ListRoute, CheckResult]:
    """Return the route, and the line about the field that holds the list."""
    items = items_of(route, raw)
    path = None
    lists = dict(_lists(raw))
    for list_path, value in lists.items():
        if value is items:
            path = list_path
    if items is not None:
        where = f"field {path!r}" if path else "the reply itself"
        if not items:
            where = f"{where}; it is empty, so its fields cannot be checked"
        return route, CheckResult("list", "ok", where)
    guess = max(lists, key=lambda list_path: len(lists[list_path]), default=None)
    if guess:
        detail = f"not in {route.items or 'a usual field'!r}; {guess!r} looks like it (list.items)"
        return route.model_copy(update={"items": guess}), CheckResult("list", "ok", detail)
    fields = ", ".join(list(raw)[:NAMED]) if isinstance(raw, Mapping) else type(raw).__name__
    detail = f"The reply has no list of objects. It has: {fields or 'nothing'}. Set list.path or list.items."
    return route, CheckResult("list", "problem", detail)


def _lists(raw: Any, path: str = "", depth: int = 2 * LEVELS) -> Iterator[tuple[str, list[Any]]]:
    """Yield the lists in a reply that are empty or have objects, with their paths."""
    if isinstance(raw, list):
        if not raw or isinstance(raw[0], Mapping):
            yield path, raw
    elif isinstance(raw, Mapping) and depth:
        for name, value in raw.items():
            yield from _lists(value, f"{path}.{name}" if path else str(name), depth - 1)


def _fields_of(
    name: str,
    route: ListRoute,
    usual: tuple[str, ...],
    words: DocumentWords,
    objects: Sequence[Mapping[str, Any]],
) -> Counter[str]:
    """Return the fields that are used for one purpose, with the number of objects that have them."""
    path: str | None = getattr(route, name)
    found: Counter[str] = Counter()
    for item in objects:
        if name == "status" and path is None:
            found.update(status_fields(item, words))
            continue
        used = field_of(item, path, usual)
        if used is not None:
            found[used] += 1
    return found


def _field_result(name: str, found: Counter[str], objects: Sequence[Mapping[str, Any]]) -> CheckResult:
    is_required = name in {"id", "status"}
    if not found:
        if not is_required:
            return CheckResult(name, "absent", "not shown")
        fields = ", ".join(list(leaves(objects[0]))[:NAMED])
        return CheckResult(name, "problem", f"not found. Set list.{name} to one of: {fields}")
    fields = ", ".join(repr(field_name) for field_name in found)
    detail = f"field {fields}"
    if len(found) > 1:
        detail = f"fields {fields}"
        if name == "status":
            detail = f"{detail}; all must say that a document is in use"
    most = max(found.values())
    if most == len(objects):
        return CheckResult(name, "ok", detail)
    detail = f"{detail}; in {most} of {counted(len(objects), 'document')} of the first page"
    return CheckResult(name, "problem" if name == "id" else "ok", detail)


def leaves(item: Mapping[str, Any], path: str = "", depth: int = LEVELS) -> dict[str, Any]:
    """Return the values of an object that are neither objects nor lists, by their paths."""
    found: dict[str, Any] = {}
    for name, value in item.items():
        inner = f"{path}.{name}" if path else str(name)
        if isinstance(value, Mapping) and depth:
            found.update(leaves(value, inner, depth - 1))
        elif not isinstance(value, Mapping | list):
            found[inner] = value
    return found


def _guessed(objects: Sequence[Mapping[str, Any]], looks_like: Callable[[str, Sequence[Any]], bool]) -> str | None:
    """Return the first field of all objects whose name and values look like something."""
    for path in leaves(objects[0]):
        values = [value_at(item, path) for item in objects]
        if None not in values and looks_like(path.casefold(), values):
            return path
    return None


def _looks_like_id(name: str, values: Sequence[Any]) -> bool:
    texts = {text_of(value) for value in values}
    has_name = any(mark in name for mark in ("id", "key", "ref"))
    return has_name and None not in texts and len(texts) == len(values)


def _looks_like_status(name: str, values: Sequence[Any]) -> bool:
    if not any(mark in name for mark in ("stat", "phase", "stage", "active", "publi", "live", "enabled")):
        return False
    return all(isinstance(value, bool) or 0 < len(text_of(value) or "") <= SHORT for value in values)


def _looks_like_time(name: str, values: Sequence[Any]) -> bool:
    if not any(mark in name for mark in ("creat", "added", "upload", "insert")):
        return False
    return all(_is_time(value) for value in values)


def _is_time(value: Any) -> bool:
    try:
        datetime.fromisoformat(str(value))
    except ValueError:
        return False
    return True
