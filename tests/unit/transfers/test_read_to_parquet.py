"""Any read as records: lists, pages, days of a history, and users without their addresses."""

from __future__ import annotations

import json
import logging
import random
from datetime import UTC, datetime, timedelta
from urllib.parse import parse_qs, quote, unquote, urlsplit

import pyarrow.parquet as pq
import pytest

from airflow_provider_assistant.api.privacy import user_label
from airflow_provider_assistant.exceptions import (
    AssistantInputError,
    AssistantNotFoundError,
    AssistantResponseError,
)
from airflow_provider_assistant.transfers.read_to_parquet import AssistantReadToParquetOperator
from tests.task_runs.context import execute_operator
from tests.wire import Answer, ScriptedService

NIGHT = datetime(2026, 11, 21, tzinfo=UTC)
DAY = NIGHT.date()
USAGE = "/m2m/tenants/acme/usage"
SESSIONS_PATH = "/m2m/sites/docs/sessions"
HISTORY = f"{USAGE}/history"


class Pages(ScriptedService):
    """A service that answers each request with what a function returns for its query."""

    def __init__(self, page) -> None:
        super().__init__()
        self.page = page

    def next(self, request):
        super().next(request)
        query = {name: values[0] for name, values in parse_qs(urlsplit(request.path).query).items()}
        return Answer(200, self.page(query))

    @property
    def queries(self):
        return [urlsplit(request.path).query for request in self.received]


@pytest.fixture
def export(monkeypatch, tmp_path, ledger_home):
    """Export a read of a service; return the result and the operator."""

    def exported(service, task_id="task", moment=NIGHT, map_index=-1, **arguments):
        extra = {"tenant_id": "acme", "site_id": "docs", "retries": 0}
        fields = {"conn_type": "assistant", "host": service.url, "password": "key-of-a-test", "extra": extra}
        monkeypatch.setenv("AIRFLOW_CONN_ASSISTANT_DEFAULT", json.dumps(fields))
        operator = AssistantReadToParquetOperator(task_id=task_id, output_path=str(tmp_path), **arguments)
        try:
            return execute_operator(operator, moment=moment, map_index=map_index)
        finally:
            operator.hook.client.close()

    return exported


def rows(path):
    return pq.ParquetFile(path).read().to_pylist()


def served(*bodies, status=200):
    return ScriptedService(*[Answer(status, body) for body in bodies])


def metrics(found):
    return {(row["item"], row["metric"]): row["text"] for row in found}


def warnings_of_the_package(caplog):
    records = [record for record in caplog.records if record.name.startswith("airflow_provider_assistant")]
    return [record.getMessage() for record in records if record.levelno >= logging.WARNING]


# -- records -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "path", "name", "site"),
    [
        ({"read": "limits"}, "/m2m/tenants/acme/limits", "limits", None),
        ({"read": "statistics"}, "/m2m/sites/docs/statistics", "statistics", "docs"),
        ({"path": USAGE}, USAGE, USAGE, None),
        ({"path": SESSIONS_PATH, "name": "sessions"}, SESSIONS_PATH, "sessions", "docs"),
    ],
)
def test_any_read(arguments, path, name, site, export):
    body = b'{"used": {"documents": 7, "rate": 1.10}, "period": "2026-11"}'
    with served(body) as service:
        result = export(service, **arguments)
        assert service.received[0].path == f"/api/v1{path}"
    found = rows(result["path"])
    assert metrics(found) == {
        (None, "used.documents"): "7",
        (None, "used.rate"): "1.10",
        (None, "period"): "2026-11",
    }
    for row in found:
        assert (row["read"], row["tenant_id"], row["site_id"], row["user_label"]) == (name, "acme", site, None)
        assert (row["period"], row["logical_date"]) == ("2026-11", NIGHT)
    (raw,) = rows(result["raw_path"])
    assert raw["raw"] == '{"used": {"documents": 7, "rate": 1.10}, "period": "2026-11"}'
    assert (result["items"], result["pages"], result["unread"], result["date"]) == (None, 1, 0, "2026-11-21")
    assert result["path"].endswith("/reads/date=2026-11-21/dag.task.parquet")


@pytest.mark.parametrize("body", [b"", b"null", b"7", b'"text"', b"[1, 2]", b"{}"])
def test_a_reply_of_any_shape_is_written(body, export):
    with served(body) as service:
        result = export(service, path=USAGE)
    assert result["rows"] == len(rows(result["path"])) >= 1
    (raw,) = rows(result["raw_path"])
    assert json.loads(raw["raw"]) == json.loads(body or b"null")


SESSIONS = [
    {"session_id": "s-2", "messages": 3, "tags": [{"name": "a", "n": 1}, {"name": "b", "n": 2}]},
    {"session_id": "s-1", "messages": 1.50, "closed": None},
    {"messages": 0},
]
SHAPES = {
    "list": (SESSIONS, None),
    "named": ({"sessions": SESSIONS, "total": 3}, {"total": 3}),
    "data": ({"status": "ok", "data": SESSIONS}, {"status": "ok"}),
    "deep": ({"data": {"page": {"sessions": SESSIONS, "n": 1}}, "x": 2}, {"data": {"page": {"n": 1}}, "x": 2}),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_items_of_a_list_are_records(shape, export):
    body, rest = SHAPES[shape]
    with served(body) as service:
        result = export(service, path=SESSIONS_PATH)
    raws = rows(result["raw_path"])
    by_item = {row["item"]: json.loads(row["raw"]) for row in raws}
    expected = {"s-2": SESSIONS[0], "s-1": SESSIONS[1], "2": SESSIONS[2]}
    assert by_item == (expected if rest is None else {None: rest, **expected})
    assert [row["item"] for row in raws][-3:] == ["s-2", "s-1", "2"]
    found = metrics(rows(result["path"]))
    assert found["s-1", "messages"] == "1.5"
    assert found["s-2", "tags.1.name"] == "b"
    assert found["2", "messages"] == "0"
    assert result["items"] == 3


def test_list_keys_name_the_items_and_the_lists_in_them(export):
    body = {"data": {"sessions": SESSIONS}, "kinds": [{"k": "qa", "n": 4}]}
    keys = {"data.sessions": "messages", "data.sessions.*.tags": "name", "kinds": "k"}
    with served(body) as service:
        found = metrics(rows(export(service, path=SESSIONS_PATH, list_keys=keys)["path"]))
    assert found["3", "tags.b.n"] == "2"
    assert found[None, "kinds.qa.n"] == "4"


def test_the_list_may_be_named(export):
    body = {"items": [{"id": "wrong"}], "visits": {"open": [{"id": 1}, {"id": 2}]}, "scalars": ["a", "b"]}
    with served(body) as service:
        result = export(service, path="/m2m/sites/docs/visits", items="visits.open", name="visits")
        assert {row["item"] for row in rows(result["raw_path"])} == {None, "1", "2"}
        assert {row["read"] for row in rows(result["path"])} == {"visits"}
        result = export(service, path="/m2m/sites/docs/visits", items="scalars", name="visits")
        assert metrics(rows(result["path"]))["1", "$"] == "b"
        with pytest.raises(AssistantResponseError, match=r"no list at 'visits.closed'. It has items, visits, scalars"):
            export(service, path="/m2m/sites/docs/visits", items="visits.closed")


def test_a_path_says_whose_record_it_is(export):
    with served({"a": 1}) as service:
        path = "/m2m/tenants/other%20one/sites/shop/languages"
        (row,) = rows(export(service, path=f"{path}?all=1", query={"x": "ä"})["path"])
        assert service.received[0].path.endswith(f"{path}?all=1&x=%C3%A4")
    assert (row["tenant_id"], row["site_id"], row["read"]) == ("other one", "shop", path)


def test_a_second_run_replaces_the_first_and_a_failure_changes_nothing(export):
    with served({"a": 1}, {"b": 2, "c": 3}) as service:
        first = export(service, path=USAGE)
        second = export(service, path=USAGE)
    assert first["path"] == second["path"]
    assert {row["metric"] for row in rows(second["path"])} == {"b", "c"}
    with served({"error": "gone"}, status=404) as service, pytest.raises(AssistantNotFoundError):
        export(service, path=USAGE)
    assert {row["metric"] for row in rows(second["path"])} == {"b", "c"}


def test_two_tasks_do_not_write_the_same_read_and_may_write_others(export):
    with served({"a": 1}) as service:
        export(service, path=USAGE)
        export(service, "other", path="/m2m/tenants/acme")
        with pytest.raises(AssistantInputError, match="count them twice"):
            export(service, "third", path=USAGE)


# -- pages -------------------------------------------------------------------------------------

ITEMS = [{"id": f"i{number}", "n": number} for number in range(7)]


def page_of(start, size=3):
    return ITEMS[start : start + size]


def linked(query):
    start = int(query.get("start", 0))
    body = {"sessions": page_of(start), "links": {"next": None}}
    if start + 3 < len(ITEMS):
        body["links"] = {"next": {"href": f"https://elsewhere.example/x?start={start + 3}&site=docs"}}
    return body


def with_cursor(query):
    start = int(query.get("cursor", "c0")[1:])
    following = f"c{start + 3}" if start + 3 < len(ITEMS) else None
    return {"data": page_of(start), "meta": {"next_cursor": following, "kept": query.get("status")}}


def numbered(query):
    number = int(query.get("page", 1))
    return {"items": page_of(3 * (number - 1)), "next_page": number + 1 if number < 3 else None}


def echoing(query):
    """The last page repeats the cursor of the request."""
    start = int(query.get("cursor", 0))
    return {"items": page_of(start), "cursor": str(min(start + 3, 6))}


@pytest.mark.promise(
    "lake and warehouse",
    "An export of a list follows its pages, and counts items that the service does not send.",
)
@pytest.mark.parametrize("service_page", [linked, with_cursor, numbered, echoing])
def test_pages_are_followed_if_the_replies_show_them(service_page, export, caplog):
    with Pages(service_page) as service:
        result = export(service, path=SESSIONS_PATH, query={"status": "open"})
        assert service.queries[0] == "status=open"
        assert all(request.path.startswith("/api/v1/m2m/sites/docs/sessions") for request in service.received)
        if service_page is with_cursor:
            assert service.queries[1:] == ["status=open&cursor=c3", "status=open&cursor=c6"]
    items = [row["item"] for row in rows(result["raw_path"]) if row["item"] is not None]
    assert items == [item["id"] for item in ITEMS]
    assert (result["items"], result["pages"], result["unread"]) == (7, 3, 0)
    assert len([row for row in rows(result["raw_path"]) if row["item"] is None]) == 1
    assert warnings_of_the_package(caplog) == []


def test_a_service_that_sends_the_same_page_again_ends_the_list(export, caplog):
    with Pages(lambda query: {"items": page_of(0), "next_cursor": "more", "total": 7}) as service:
        result = export(service, path=SESSIONS_PATH)
        assert len(service.queries) == 2
    assert (result["items"], result["pages"], result["unread"]) == (3, 1, 4)
    assert "same page of /m2m/sites/docs/sessions again" in caplog.text
    assert "at least 4 more items" in caplog.text


@pytest.mark.parametrize(
    ("extra", "unread"),
    [
        ({"total": 12}, 5),
        ({"meta": {"total_count": 7}}, 0),
        ({"has_more": True}, 1),
        ({"has_more": False}, 0),
        ({"total": "12"}, 0),
        ({"count": 7}, 0),
        ({}, 0),
    ],
)
def test_items_that_the_service_does_not_send_are_counted(extra, unread, export, caplog):
    with served({"sessions": ITEMS, **extra}) as service:
        result = export(service, path=SESSIONS_PATH)
        assert len(service.received) == 1
    assert (result["items"], result["unread"]) == (7, unread)
    assert len(warnings_of_the_package(caplog)) == bool(unread)


# -- days of a history -------------------------------------------------------------------------


def days_before(count):
    return [DAY - timedelta(days=number) for number in range(count)]


HISTORIES = {
    "list": lambda days: [{"date": day.isoformat(), "messages": day.day} for day in days],
    "enveloped": lambda days: {
        "data": {"history": [{"date": f"{day}T00:00:00+02:00", "messages": day.day} for day in days]}
    },
    "by day": lambda days: {"usage": {day.isoformat(): {"messages": day.day} for day in days}},
    "periods": lambda days: {"period": "month", "history": [{"date": str(day), "messages": day.day} for day in days]},
}


@pytest.mark.promise("lake and warehouse", "A history fills its days from one reply, and a second run changes nothing.")
@pytest.mark.parametrize("shape", HISTORIES)
def test_one_request_fills_many_days_and_a_second_run_changes_nothing(shape, export, tmp_path):
    days = days_before(30)
    shuffled = days.copy()
    random.Random(shape).shuffle(shuffled)
    with served(HISTORIES[shape](shuffled)) as service:
        result = export(service, path=HISTORY, date_field="date", days=30)
        before = [rows(path) for path in result["paths"]]
        export(service, path=HISTORY, date_field="date", days=30)
    assert [path.split("date=")[1][:10] for path in result["paths"]] == [str(day) for day in reversed(days)]
    assert (result["items"], result["missing"], result["outside"], result["undated"]) == (30, 0, 0, 0)
    for found, day in zip(before, reversed(days), strict=True):
        assert {(row["metric"], row["value"]) for row in found if row["type"] == "number"} == {("messages", day.day)}
    without_time = [[{**row, "captured_at": None} for row in found] for found in (*before, *map(rows, result["paths"]))]
    assert without_time[:30] == without_time[30:]
    assert len(list(tmp_path.rglob("*.parquet"))) == 60


def test_a_day_that_the_reply_lacks_keeps_its_file_and_is_counted(export, capsys):
    days = days_before(5)
    with served(HISTORIES["list"](days), HISTORIES["list"]([days[0], days[3]])) as service:
        first = export(service, path=HISTORY, date_field="date", days=5)
        old = [rows(path) for path in first["paths"]]
        capsys.readouterr()
        second = export(service, path=HISTORY, date_field="date", days=5)
    assert (second["missing"], len(second["paths"])) == (3, 2)
    logged = capsys.readouterr().out
    assert f"The reply about {HISTORY} lacks 3 of 5 days, whose files stay as they are" in logged
    assert str(days[1]) in logged
    kept = [rows(path) for path in first["paths"]]
    changed = [before != after for before, after in zip(old, kept, strict=True)]
    # The earliest day first: the new files differ in the time of capture.
    assert changed == [False, True, False, False, True]


def test_after_a_pause_all_days_since_the_last_one_are_written(export):
    days = days_before(20)
    with served(HISTORIES["list"](days[5:]), HISTORIES["list"](days)) as service:
        options = {"path": HISTORY, "date_field": "date", "days": 2}
        assert export(service, moment=NIGHT - timedelta(days=5), **options)["items"] == 2
        assert export(service, **options)["items"] == 6
        assert export(service, **options, date=str(days[10]))["items"] == 2


def test_days_outside_of_the_range_are_not_written(export, tmp_path):
    """The first day of a reply may be a part of a day only."""
    days = [DAY + timedelta(days=1), *days_before(40)]
    with served(HISTORIES["list"](days)) as service:
        result = export(service, path=HISTORY, date_field="date", date="2026-11-20", days=3)
    assert (result["items"], result["missing"], result["outside"]) == (3, 0, 38)
    assert [path.split("date=")[1][:10] for path in result["paths"]] == ["2026-11-18", "2026-11-19", "2026-11-20"]


def test_several_items_of_a_day_and_items_without_a_day(export, capsys):
    items = [
        {"when": {"day": "2026-11-21"}, "site": "docs", "n": 1},
        {"when": {"day": "2026-11-21"}, "site": "shop", "n": 2},
        {"when": {"day": "2026-11"}, "n": 3},
        {"when": None},
        {"when": {"day": "2026-02-30"}},
    ]
    with served({"rows": items}) as service:
        options = {"date_field": "when.day", "query": {"days": "2"}, "list_keys": {"rows": "site"}}
        result = export(service, path="/m2m/tenants/acme/usage/daily", **options)
        assert service.received[0].path.endswith("daily?days=2")
    assert metrics(rows(result["path"])) == {
        ("docs", "when.day"): "2026-11-21",
        ("docs", "site"): "docs",
        ("docs", "n"): "1",
        ("shop", "when.day"): "2026-11-21",
        ("shop", "site"): "shop",
        ("shop", "n"): "2",
    }
    assert (result["items"], result["undated"], result["missing"]) == (2, 3, 1)
    assert "without a day were not written: 3." in capsys.readouterr().out


@pytest.mark.parametrize(
    ("body", "part"),
    [
        ({"history": [{"n": 1}, {"n": 2}]}, "no item"),
        ({"history": {"dates": ["2026-11-21"], "n": [1]}}, "no list"),
        ({"used": 3}, "no list"),
        (b"", "no list"),
    ],
)
def test_a_history_that_is_not_understood_fails_and_writes_nothing(body, part, export, tmp_path):
    with served(body) as service, pytest.raises(AssistantResponseError, match=part):
        export(service, path=HISTORY, date_field="date")
    assert not list(tmp_path.rglob("*.parquet"))


def test_an_empty_history_writes_nothing_and_counts_all_days(export, tmp_path):
    with served({"history": []}) as service:
        result = export(service, path=HISTORY, date_field="date", days=4)
    assert (result["missing"], result["path"], result["paths"], result["rows"]) == (4, None, [], 0)
    assert not list(tmp_path.rglob("*.parquet"))


# -- users -------------------------------------------------------------------------------------

ADDRESSES = ["Ada.Lovelace+1@Mail.Example", "o'brien@example.org", "müller@straße.example"]


@pytest.mark.promise(
    "security",
    "No e-mail address is exported, logged or part of a file name, unless the user asks for it.",
)
@pytest.mark.parametrize("address", ADDRESSES)
def test_no_address_is_written_unless_it_is_wanted(address, export, tmp_path, caplog, capsys):
    caplog.set_level(logging.DEBUG)
    body = {
        "email": address,
        "by_user": {address: 3, "other@example.com": 4},
        "text": f"Statistics of <{address.upper()}>, page /users/{address}/x?email={address}.",
        "items": [{"id": address, "from": "other@example.com"}],
    }
    label = user_label(address)
    with served(body) as service:
        result = export(service, path=f"/m2m/sites/docs/users/{quote(address)}/statistics")
        assert unquote(service.received[0].path).endswith(f"/users/{address}/statistics")
    shown = (
        json.dumps(result) + caplog.text + capsys.readouterr().out + "".join(str(path) for path in tmp_path.rglob("*"))
    )
    found = rows(result["path"]) + rows(result["raw_path"])
    shown += json.dumps(found, default=str, ensure_ascii=False)
    name, _, domain = address.partition("@")
    for secret in (name, domain, "other@"):
        assert secret.casefold() not in shown.casefold().replace("mail.example", domain)
    assert {(row["user_label"], row["email"]) for row in found} == {(label, None)}
    values = metrics(rows(result["path"]))
    assert values[None, f"by_user.{label}"] == "3"
    assert values[label, "from"] == user_label("other@example.com")


def test_addresses_are_written_if_they_are_wanted(export):
    with served({"email": "ada@example.com"}) as service:
        result = export(service, path="/m2m/sites/docs/users/ada%40example.com", with_emails=True)
    (row,) = rows(result["path"])
    assert (row["text"], row["user_label"]) == ("ada@example.com", user_label("ada@example.com"))
    assert "ada" not in result["path"]


def test_a_path_with_an_address_has_its_label(export, caplog, capsys):
    with served({"a": 1}) as service:
        result = export(service, path="/m2m/sites/docs/people/ada%40example.com", file_name="of ada@example.com")
    (row,) = rows(result["path"])
    assert row["read"] == f"/m2m/sites/docs/people/{user_label('ada@example.com')}"
    assert "ada" not in result["path"] + caplog.text + capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({}, "read"),
        ({"read": "limits", "path": "/m2m/x"}, "read"),
        ({"read": "usage"}, "read"),
        ({"path": "/m2m/x", "query": {"email": ["ada@example.com"]}}, "query"),
        ({"path": "/m2m/x", "items": " "}, "items"),
        ({"path": "/m2m/x", "days": 0}, "days"),
    ],
)
def test_invalid_parameters_are_found_when_the_dag_is_parsed(arguments, field, tmp_path):
    with pytest.raises(AssistantInputError) as caught:
        AssistantReadToParquetOperator(task_id="task", output_path=str(tmp_path), **arguments)
    assert caught.value.field == field
    assert "ada" not in str(caught.value)


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"path": "https://elsewhere.example/x"}, "path"),
        ({"read": "limits", "tenant_id": " "}, "tenant_id"),
    ],
)
def test_invalid_combinations_are_found_before_any_request(arguments, field, export, tmp_path):
    with served({}) as service:
        with pytest.raises(AssistantInputError) as caught:
            export(service, **arguments)
        assert service.received == []
    assert caught.value.field == field
