"""Compare the ledger with the list of a site's documents."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, TypeAlias

from airflow_provider_assistant.api.site_documents import SiteDocument
from airflow_provider_assistant.ledger import Ledger, Site
from airflow_provider_assistant.ledger.site_queries import SiteEntry, removed_ids, site_entries
from airflow_provider_assistant.loading.site_match import Texts, texts_of_document
from airflow_provider_assistant.texts import counted, storable

# "gone": in the ledger, not on the site. "doubled": the same title and content as another document.
# "superseded": replaced by newer content, and still in use.
# "removed": removed from use by a load, and in use.
# "draft", "not_ready": in the ledger, and not in use. "unknown": on the site, not in the ledger.
DifferenceKind: TypeAlias = Literal["gone", "doubled", "superseded", "removed", "draft", "not_ready", "unknown"]
KINDS: tuple[DifferenceKind, ...] = (
    "gone",
    "doubled",
    "superseded",
    "removed",
    "draft",
    "not_ready",
    "unknown",
)
# Documents of people are not in the ledger, so an unknown one is not a problem.
PROBLEMS = KINDS[:-1]
ReadList: TypeAlias = Callable[[], Iterable[SiteDocument]]


@dataclass(slots=True)
class Difference:
    """
    A document that ledger and site disagree about.

    :param title: Title on the site; None if the list does not show it.
    :param state: What its status means.
    :param status: Status word of the service.
    :param source: Source in the ledger; None if the ledger does not know the document.
    :param label: Key in the ledger as readable text.
    :param other_id: Document with the same title and content.
    """

    kind: DifferenceKind
    document_id: str
    title: str | None = None
    state: str | None = None
    status: str | None = None
    created_at: datetime | None = None
    source: str | None = None
    label: str | None = None
    other_id: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return the difference as plain JSON types."""
        created_at = None
        if self.created_at is not None:
            created_at = self.created_at.isoformat(timespec="seconds")
        return {
            "kind": self.kind,
            "document_id": self.document_id,
            "title": self.title,
            "state": self.state,
            "status": self.status,
            "created_at": created_at,
            "source": self.source,
            "label": self.label,
            "other_id": self.other_id,
        }


@dataclass(slots=True)
class SiteDiff:
    """
    The differences between the ledger and a site.

    :param documents: Number of documents that the list shows.
    :param in_ledger: Number of current documents of the ledger with an id.
    :param without_id: Number of current documents of the ledger without an id, which cannot be
        compared.
    """

    documents: int = 0
    in_ledger: int = 0
    without_id: int = 0
    differences: list[Difference] = field(default_factory=list)

    @property
    def problems(self) -> list[Difference]:
        """All differences but unknown documents."""
        return [difference for difference in self.differences if difference.kind in PROBLEMS]

    def counts(self) -> dict[str, int]:
        """Return the numbers of documents, and of differences by kind."""
        by_kind = Counter(difference.kind for difference in self.differences)
        totals = {
            "documents": self.documents,
            "in_ledger": self.in_ledger,
            "without_id": self.without_id,
        }
        return {**totals, **{kind: by_kind[kind] for kind in KINDS}}

    def summary(self) -> str:
        """Return the counts as text, such as ``12 documents, 10 in the ledger: 1 gone``."""
        counts = self.counts()
        listed = [f"{counts[kind]} {kind.replace('_', ' ')}" for kind in KINDS if counts[kind]]
        differences = ", ".join(listed) or "no differences"
        text = f"{counted(self.documents, 'document')}, {self.in_ledger} in the ledger: {differences}"
        if self.without_id:
            text += f"; not compared, because the ledger has no id: {self.without_id}"
        return text


def compare(ledger: Ledger, site: Site, read_list: ReadList) -> SiteDiff:
    """
    Compare the ledger with a site.

    Ids and hashes are kept in memory, and the documents that differ. A document that seems to be
    gone is looked up in a second reading of the list, because the list may change while it is read.

    :param read_list: Reads the list of the site's documents; called once or twice.
    :raises AssistantError: The list cannot be read.
    """
    comparison = _Comparison(ledger, site)
    for document in read_list():
        comparison.add(document)
    missing_ids = comparison.missing_ids()
    if missing_ids:
        for document in read_list():
            missing_ids.discard(storable(document.document_id))
    return comparison.finish(missing_ids)


class _Comparison:
    def __init__(self, ledger: Ledger, site: Site) -> None:
        self._ledger = ledger
        self._site = site
        self._diff = SiteDiff()
        self._current_ids: set[str] = set()
        self._superseded_ids: set[str] = set()
        self._listed_ids: set[str] = set()
        # The first document in use with each title and content.
        self._ids_by_texts: dict[Texts, str] = {}
        self._differences: dict[str, Difference] = {}
        for entry in site_entries(ledger.engine, site):
            self._superseded_ids.update(entry.superseded_ids)
            if entry.document_id is not None:
                self._current_ids.add(entry.document_id)
            elif entry.has_document:
                self._diff.without_id += 1
        self._superseded_ids -= self._current_ids
        self._removed_ids = ledger.read(removed_ids, site)
        self._diff.in_ledger = len(self._current_ids)

    def add(self, document: SiteDocument) -> None:
        """Compare a document of the list with the ledger."""
        stored_id = storable(document.document_id)
        if stored_id in self._listed_ids:
            # A page repeats a document if the list has changed.
            return
        self._listed_ids.add(stored_id)
        self._diff.documents += 1
        kind = self._kind(stored_id, document)
        other_id = self._twin(document)
        if other_id is not None and kind in {None, "unknown"}:
            kind = "doubled"
        if kind is None:
            return
        self._differences[stored_id] = Difference(
            kind=kind,
            document_id=document.document_id,
            title=document.title,
            state=document.state,
            status=document.status,
            created_at=document.created_at,
            other_id=other_id,
        )

    def _kind(self, stored_id: str, document: SiteDocument) -> DifferenceKind | None:
        if stored_id in self._superseded_ids:
            return None if document.state in {"draft", "failed"} else "superseded"
        if stored_id not in self._current_ids and stored_id in self._removed_ids:
            return None if document.state in {"draft", "failed"} else "removed"
        if stored_id not in self._current_ids:
            return "unknown"
        if document.state == "draft":
            return "draft"
        return "not_ready" if document.is_in_use is False else None

    def _twin(self, document: SiteDocument) -> str | None:
        """Return an earlier document of the list with the same title and content, or None."""
        texts = texts_of_document(document)
        has_name = texts.title is not None or texts.question is not None
        if document.state == "draft" or texts.text is None or not has_name:
            return None
        first_id = self._ids_by_texts.setdefault(texts, document.document_id)
        return None if first_id == document.document_id else first_id

    def missing_ids(self) -> set[str]:
        """Return the ids of the ledger's documents that the list does not show, as stored."""
        return self._current_ids - self._listed_ids

    def finish(self, gone_ids: Collection[str]) -> SiteDiff:
        """
        Return the differences, by kind.

        The ledger is read again: a load may have created or superseded documents meanwhile.

        :param gone_ids: Ids of documents that are not on the site.
        """
        for stored_id in gone_ids:
            self._differences[stored_id] = Difference("gone", stored_id)
        for entry in site_entries(self._ledger.engine, self._site):
            if entry.document_id is not None:
                self._label(entry.document_id, entry, is_current=True)
            for stored_id in entry.superseded_ids:
                self._label(stored_id, entry, is_current=False)
        differences = list(self._differences.values())
        differences = [difference for difference in differences if self._is_current(difference)]
        differences.sort(key=lambda one: (KINDS.index(one.kind), one.document_id))
        self._diff.differences = differences
        return self._diff

    def _label(self, stored_id: str, entry: SiteEntry, *, is_current: bool) -> None:
        """Add source and key to a difference. Drop it if the document was superseded meanwhile."""
        difference = self._differences.get(stored_id)
        if difference is None:
            return
        difference.source = entry.source
        difference.label = entry.label
        if not is_current and difference.kind in {"gone", "draft", "not_ready"}:
            del self._differences[stored_id]

    @staticmethod
    def _is_current(difference: Difference) -> bool:
        """Return whether a difference is still one after the ledger was read again."""
        is_known = difference.source is not None
        if difference.kind in {"unknown", "removed"}:
            return not is_known
        return is_known or difference.kind == "doubled"
