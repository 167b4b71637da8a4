"""Export of any read, such as the usage or the sessions, to Parquet."""

from __future__ import annotations

import datetime
import logging
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar
from urllib.parse import unquote

from airflow.providers.common.compat.sdk import Context

from airflow_provider_assistant import lake, parameters
from airflow_provider_assistant.api.privacy import shown_path, without_addresses
from airflow_provider_assistant.api.replies import ApiReply
from airflow_provider_assistant.exceptions import AssistantInputError, AssistantResponseError
from airflow_provider_assistant.failures import explained
from airflow_provider_assistant.hooks.task_parameters import Checks, check_given, check_rendered
from airflow_provider_assistant.lake import records
from airflow_provider_assistant.lake.flattening import distinct, json_text
from airflow_provider_assistant.lake.reading import ListPlace, Reading, read_all
from airflow_provider_assistant.ledger import RunRef
from airflow_provider_assistant.texts import counted, shortened
from airflow_provider_assistant.transfers.base import ExportOperator
from airflow_provider_assistant.transfers.progress import ONE_DAY, Progress, days_between

# The reads that have a name.
READS = ("limits", "statistics")
# Characters of the missing days in the log.
LISTED = 500


class AssistantReadToParquetOperator(ExportOperator):
    """
    Export a read that has no operator of its own to the datasets ``reads`` and ``reads_raw``.

    A reply is split into records: each item of its list, such as a session, and the reply without the list. ``reads``
    has one row per value of a record, ``reads_raw`` one row per record. A run replaces this task's files in the
    partition of its day.

    A list in pages is read to its end if the replies show the next page; otherwise, a warning has the number of items
    that are missing.

    With ``date_field``, each item goes to the partition of its own day, so one request fills many days.
    Only days of the last ``days`` days are written, and all days since the last one that
    earlier runs wrote, at most 400. A day that the reply does not have keeps its files.

    E-mail addresses in a reply are replaced by labels, such as ``user-3f2a9c51d2e8``.

    .. seealso::
        For more information on how to use this operator, take a look at the guide:
        :doc:`/export/nightly-export`

    :param read: What to read, by its name: ``limits`` or ``statistics``. Set this or ``path``.
    :param path: Path of any other route that is read with ``GET``, below the base URL and percent-encoded, such as
        ``/m2m/tenants/acme-inc/usage``. Set this or ``read``.
    :param query: Parameters of the query. Default: None.
    :param name: Name of the read in the column ``read``. Default: ``read``, or ``path`` without its query.
    :param items: Dotted path of the list in the reply, such as ``data.sessions``. Default: None, found by common names.
    :param list_keys: Mapping from the path of a list to the field that names its items. Default: None; an item of the
        list is named by its id, and an item of any other list by its position.
    :param date_field: Dotted path of the field of an item with its day. Default: None, which
        writes all items to the partition of ``date``.
    :param days: Number of days that every run writes, ending with ``date``, if the items have days. Default: 2.
    :param with_emails: Whether e-mail addresses are written. Default: False.

    The other parameters are those of :class:`~airflow_provider_assistant.transfers.base.ExportOperator`.
    """

    template_fields: Sequence[str] = (
        *ExportOperator.template_fields,
        "read",
        "path",
        "query",
        "name",
        "items",
        "list_keys",
        "date_field",
    )
    parameter_checks: ClassVar[Checks] = {"read": parameters.choice(*READS)}

    def __init__(
        self,
        *,
        read: str | None = None,
        path: str | None = None,
        query: Mapping[str, str] | None = None,
        name: str | None = None,
        items: str | None = None,
        list_keys: Mapping[str, str] | None = None,
        date_field: str | None = None,
        days: int = 2,
        with_emails: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.read = read
        self.path = path
        self.query = query
        self.name = name
        self.items = items
        self.list_keys = list_keys
        self.date_field = date_field
        self.days = days
        self.with_emails = with_emails
        check_given(self)
        if (read is None) == (path is None):
            raise AssistantInputError(f"task {self.task_id!r}: give either read or path", field="read")

    def base_name(self, run: RunRef) -> str:
        """
        Return the name that all files of this task begin with.

        :param run: The task instance.
        :return: As of other exports, without e-mail addresses.
        """
        return without_addresses(super().base_name(run))

    @explained
    def execute(self, context: Context) -> dict[str, Any]:
        """
        Read, and write the partitions.

        :param context: Airflow's task context.
        :return: ``rows`` and ``bytes`` of all files; ``path`` and ``raw_path`` of the last day's files, ``paths`` of
            all files of ``reads``; ``items``, the number of items of the list that were written, or None without a
            list; ``pages``, the number of requests; ``unread``, the number of items that the service did not send;
            ``missing``, ``outside`` and ``undated``: the number of days without an item, of items of other days, and
            of items without a day; and ``date``.
        :raises AssistantInputError: A parameter is invalid, and nothing was sent; or another file of a partition
            already contains the rows.
        :raises AssistantResponseError: The reply has no list at ``items``, or no item has a day.
        :raises AssistantError: Any other error.
        """
        check_rendered(self, context)
        last = self.day(context)
        if self.date_field is None:
            return self._write_day(context, self._reading(self.query or {}), last)
        progress = self.progress(context, "reads")
        first = last - ONE_DAY * (self.days - 1)
        if progress is not None:
            first = progress.first_day(last, self.days)
        return self._write_days(context, self._reading(self.query or {}), first, last, progress)

    def _reading(self, query: Mapping[str, str]) -> Reading:
        names = (self._last_word(), *records.LIST_FIELDS)
        place = ListPlace(self.items, names, any_name=self.date_field is not None)
        return read_all(self._send, query, place, label=self._label(), with_emails=self.with_emails)

    def _send(self, query: Mapping[str, str]) -> ApiReply:
        return self.hook.read(self._path(), query)

    def _path(self) -> str:
        """Return the path of the route, or its name."""
        return self.read or str(self.path)

    def _label(self) -> str:
        """Return the name of the read, for the column ``read`` and for messages."""
        if self.name is not None:
            return without_addresses(self.name)
        return self.read or shown_path(self._path())

    def _last_word(self) -> str:
        """Return the last word of the route, such as ``sessions``."""
        return shown_path(self._path()).rstrip("/").rpartition("/")[2]

    def _write_day(self, context: Context, reading: Reading, day: datetime.date) -> dict[str, Any]:
        """Write all records to the partition of one day."""
        captures = []
        items = []
        if reading.items is None or reading.rest is not None:
            captures = [self._capture(context, reading, reading.rest, None)]
        if reading.items is not None:
            items = self._item_captures(context, reading, reading.items.items)
        files = self._publish(context, captures, items, reading, day)
        return self._result(context, reading, [files], day, items=None if reading.items is None else len(items))

    def _write_days(
        self,
        context: Context,
        reading: Reading,
        first: datetime.date,
        last: datetime.date,
        progress: Progress | None,
    ) -> dict[str, Any]:
        """Write each item to the partition of its day."""
        if reading.items is None:
            raise AssistantResponseError(
                f"the reply of {self._label()} has no list whose items could be split by day",
                safe="Nothing was written.",
                todo="If it has a list, give its path in the parameter items.",
            )
        items_by_day: dict[datetime.date, list[tuple[str | None, Any]]] = {}
        outside = undated = 0
        for name, item in reading.items.items:
            day = records.day_of_item(name, item, self.date_field)
            if day is None:
                undated += 1
            elif not first <= day <= last:
                outside += 1
            else:
                items_by_day.setdefault(day, []).append((None, item))
        if undated and undated == len(reading.items.items):
            raise AssistantResponseError(
                f"no item of the reply of {self._label()} has a day",
                safe="Nothing was written.",
                todo="Give the field with the day, YYYY-MM-DD, in the parameter date_field.",
            )
        written = []
        for day, items in sorted(items_by_day.items()):
            captures = self._item_captures(context, reading, items)
            written.append(self._publish(context, [], captures, reading, day))
        all_days = days_between(first, last + ONE_DAY)
        counts = {"outside": outside, "undated": undated, "missing": len(all_days) - len(written)}
        self._warn_of_days(all_days, items_by_day, undated)
        if progress is not None and items_by_day:
            # Not the last day: the service may publish its numbers later.
            progress.record(max(items_by_day))
        item_count = sum(map(len, items_by_day.values()))
        return self._result(context, reading, written, last, items=item_count, **counts)

    def _warn_of_days(
        self,
        all_days: Sequence[datetime.date],
        items_by_day: Mapping[datetime.date, Any],
        undated: int,
    ) -> None:
        missing = [day.isoformat() for day in all_days if day not in items_by_day]
        if missing:
            # Many services have no numbers of the last day before it is over.
            is_only_last = items_by_day and len(missing) == 1 and all_days[-1] not in items_by_day
            self.log.log(
                logging.INFO if is_only_last else logging.WARNING,
                "The reply about %s lacks %d of %s, whose files stay as they are: %s.",
                self._label(),
                len(missing),
                counted(len(all_days), "day"),
                shortened(", ".join(missing), LISTED),
            )
        if undated:
            self.log.warning("Items of %s without a day were not written: %d.", self._label(), undated)

    def _publish(
        self,
        context: Context,
        captures: list[lake.Capture],
        items: list[lake.Capture],
        reading: Reading,
        day: datetime.date,
    ) -> tuple[lake.Published, lake.Published]:
        """Replace this task's files of a day, and return those of ``reads`` and ``reads_raw``."""
        import pyarrow as pa

        list_keys = self.list_keys or {}
        item_keys = {}
        if reading.items is not None:
            item_keys = records.relative_keys(list_keys, reading.items.path)
        values = lake.metrics_table(lake.READS, captures, list_keys)
        table = pa.concat_tables([values, lake.metrics_table(lake.READS, items, item_keys)])
        raw_file = self.publish(context, lake.replies_table([*captures, *items], lake.READS_RAW), "reads_raw", day)
        return self.publish(context, table, "reads", day), raw_file

    def _result(
        self,
        context: Context,
        reading: Reading,
        written: Sequence[tuple[lake.Published, lake.Published]],
        day: datetime.date,
        *,
        items: int | None,
        **counts: int,
    ) -> dict[str, Any]:
        files = [file for file, _ in written]
        raw_files = [raw_file for _, raw_file in written]
        rows = sum(file.rows for file in files)
        result = {
            "rows": rows,
            "path": files[-1].path if files else None,
            "raw_path": raw_files[-1].path if raw_files else None,
            "paths": [file.path for file in files],
            "bytes": sum(file.bytes for file in (*files, *raw_files)),
            "items": items,
            "pages": reading.pages,
            "unread": reading.unread,
            "missing": 0,
            "outside": 0,
            "undated": 0,
            **counts,
            "date": day.isoformat(),
        }
        last = f"; last file: {files[-1].path}" if files else ""
        self.log.info(
            "Wrote %s of %s in %s%s.", counted(rows, "value"), self._label(), counted(len(files), "file"), last
        )
        return self.emit_asset_events(context, result)

    def _item_captures(
        self, context: Context, reading: Reading, items: Sequence[tuple[str | None, Any]]
    ) -> list[lake.Capture]:
        """
        Return the records of items.

        :param items: Each with its name, None to take that of its fields or its position.
        """
        key = self._item_key(reading)
        fields = (f"{self._last_word().removesuffix('s')}_id", "id", "uuid") if key is None else (key,)
        names = []
        for position, (name, item) in enumerate(items):
            names.append(name or records.item_name(item, fields, position))
        if key is not None:
            # Several items may have the same value. The same id twice is an item that is on two pages.
            names = distinct(names)
        return [self._capture(context, reading, item, name) for name, (_, item) in zip(names, items, strict=True)]

    def _capture(self, context: Context, reading: Reading, value: Any, item: str | None) -> lake.Capture:
        return lake.Capture(
            captured_at=reading.captured_at,
            raw=json_text(value),
            service=self.hook.settings.service,
            tenant_id=self._tenant_id(),
            site_id=self._site_id(),
            logical_date=context["dag_run"].logical_date,
            user_label=_id_in(self.path, "users") if self.path else None,
            read=self._label(),
            item=item,
        )

    def _tenant_id(self) -> str | None:
        tenant_id = _id_in(self.path, "tenants") if self.path else None
        return tenant_id or self.hook.known_tenant_id()

    def _site_id(self) -> str | None:
        if self.path is not None:
            return _id_in(self.path, "sites")
        return self.hook.resolve_site_id() if self.read == "statistics" else None

    def _item_key(self, reading: Reading) -> str | None:
        """Return the field that names an item of the list, if list_keys gives one."""
        if reading.items is None or not self.list_keys:
            return None
        return self.list_keys.get(".".join(reading.items.path))


def _id_in(path: str, parent: str) -> str | None:
    """Return the id that follows a word such as ``sites`` in a path."""
    segments = shown_path(path).split("/")
    if parent not in segments[:-1]:
        return None
    return unquote(segments[segments.index(parent) + 1])
