"""The counts of a load."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from airflow_provider_assistant.texts import counted

# The outcomes of a row; every row has exactly one.
OUTCOMES = ("created", "unchanged", "skipped", "rejected", "ambiguous", "failed")
# Other counts of documents.
NOTES = (
    "drafts",
    "changed",
    "possibly_duplicated",
    "stale",
    "activated",
    "deactivated",
    "deleted",
    "not_activated",
    "not_removed",
    "left_out",
)


@dataclass(slots=True)
class LoadCounts:
    """
    Count the rows of a load by outcome.

    ``rows = created + unchanged + skipped + rejected + ambiguous + failed``.

    :param rows: Rows of the source.
    :param created: Rows whose documents this run created; the service acknowledged them.
    :param unchanged: Rows whose documents are already on the site with this content, and repetitions of other rows.
    :param skipped: Changed rows that ``on_change`` leaves as they are, and rows that another task is loading.
    :param rejected: Bad rows: refused by this package, or by the service with 400 or another 4xx about one row.
    :param ambiguous: Rows that were sent and may or may not have been created.
    :param failed: Good rows that were not created, because the service failed or the load stopped.
    :param drafts: Created rows whose documents the service does not use, according to its reply: they are drafts, could
        not be processed, or have a status that is not known.
    :param changed: Created rows whose key was loaded before with other content; the older documents remain.
    :param possibly_duplicated: Created rows of which an earlier attempt may have created another document.
    :param stale: Documents that were loaded from this source before and are no longer in it; None if not determined.
    :param activated: Documents that this run activated.
    :param deactivated: Stale documents that this run deactivated.
    :param deleted: Superseded and stale documents that this run deleted.
    :param not_activated: Documents that should be in use and could not be activated.
    :param not_removed: Superseded and stale documents that should be deactivated or deleted and could not be yet.
    :param left_out: What the source left out, such as blank rows, and files, pages and chunks of the steps before. They
        are not among ``rows``.
    :param requests: Requests that send a row, retries included.
    :param throttled: Requests answered with 429.
    :param seconds: Duration in seconds.
    """

    rows: int = 0
    created: int = 0
    unchanged: int = 0
    skipped: int = 0
    rejected: int = 0
    ambiguous: int = 0
    failed: int = 0
    drafts: int = 0
    changed: int = 0
    possibly_duplicated: int = 0
    stale: int | None = None
    activated: int = 0
    deactivated: int = 0
    deleted: int = 0
    not_activated: int = 0
    not_removed: int = 0
    left_out: int = 0
    requests: int = 0
    throttled: int = 0
    seconds: float = 0.0

    @property
    def outcomes(self) -> dict[str, int]:
        """Number of rows by outcome."""
        return {outcome: getattr(self, outcome) for outcome in OUTCOMES}

    @property
    def done(self) -> int:
        """Number of rows that have an outcome."""
        return sum(self.outcomes.values())

    @property
    def need_person(self) -> bool:
        """Whether rows need a person although the load may have succeeded."""
        return bool(self.ambiguous or self.skipped or self.possibly_duplicated or self.drafts)

    def add(self, outcome: str) -> None:
        """Count a row with one of the OUTCOMES."""
        setattr(self, outcome, getattr(self, outcome) + 1)

    def as_dict(self) -> dict[str, Any]:
        """
        Return the counts as plain JSON types for XCom.

        :return: One key per count, ``seconds`` and ``rows_per_second``.
        """
        rate = self.rows / self.seconds if self.seconds else 0.0
        return asdict(self) | {"seconds": round(self.seconds, 3), "rows_per_second": round(rate, 1)}

    def __str__(self) -> str:
        """Return the counts as text, such as ``3 rows: 2 created, 1 rejected``."""
        outcomes = [f"{count:,} {outcome}" for outcome, count in self.outcomes.items() if count]
        if not self.created:
            outcomes.insert(0, "0 created")
        notes = {"drafts": "of them not in use", "changed": "of them changed"}
        details = []
        for name in NOTES:
            count = getattr(self, name)
            if count:
                details.append(f"{count:,} {notes.get(name, name.replace('_', ' '))}")
        text = f"{counted(self.rows, 'row')}: {', '.join(outcomes)}"
        return f"{text} ({', '.join(details)})" if details else text
