"""Who may use which route: a table with every route of the application."""

from __future__ import annotations

import pytest

from airflow_provider_assistant.ui.access import Rights
from airflow_provider_assistant.ui.app import app

# Values of path parameters.
TASK = {
    "dag_id": "mine.kb",
    "run_id": "r",
    "task_id": "t",
    "map_index": "-1",
    "name": "assistant.mjs",
}
ENTRY = {"outcome": "not-created", "ids": [["s", "k", 1]], "confirmation": "0-"}
# Route, and the status that a viewer, a user and an administrator get. Nobody else gets anything.
SEEN, NO_REPORT = (200, 200, 200), (404, 404, 404)
EXPECTED = {
    ("GET", "/static/{name}"): SEEN,
    ("GET", "/reports/{dag_id}/{run_id}/{task_id}/{map_index}"): NO_REPORT,
    ("GET", "/api/context"): SEEN,
    ("GET", "/api/tries"): SEEN,
    ("GET", "/api/documents"): SEEN,
    ("GET", "/api/entries"): SEEN,
    ("GET", "/api/tasks/{dag_id}/{run_id}/{task_id}/{map_index}"): SEEN,
    ("GET", "/api/tasks/{dag_id}/{run_id}/{task_id}/{map_index}/findings"): SEEN,
    ("POST", "/api/settle/preview"): (403, 200, 200),
    ("POST", "/api/settle"): (403, 409, 409),
}
ROUTES = [(method, route.path) for route in app.routes for method in sorted(route.methods)]
# Routes of one task.
OF_TASK = [(method, path) for method, path in ROUTES if "{dag_id}" in path]


def ask(client, method, path, body=ENTRY):
    return client.request(method, path.format(**TASK), json=body if method == "POST" else None)


def test_the_table_has_every_route():
    assert sorted(ROUTES) == sorted(EXPECTED)


def test_nobody_gets_data_without_a_valid_token(as_user, fill, known_dags):
    fill.attempt("a", "ambiguous")
    forger = as_user()
    forger.headers["Authorization"] = "Bearer e30.e30.e30"
    for method, path in ROUTES:
        refused = ask(as_user(), method, path)
        assert (refused.status_code, refused.json()) == (401, {"detail": "Not authenticated"}), path
        assert ask(forger, method, path).status_code == 403, path


def statuses(as_user, method, path, body=ENTRY):
    return tuple(ask(as_user(role), method, path, body).status_code for role in ("viewer", "user", "admin"))


def test_what_each_role_may_read(as_user, fill, known_dags):
    fill.attempt("a", "ambiguous")
    reads = {route: expected for route, expected in EXPECTED.items() if route[0] == "GET"}
    assert {(method, path): statuses(as_user, method, path) for method, path in reads} == reads


@pytest.mark.parametrize("path", [path for method, path in EXPECTED if method == "POST"])
def test_what_each_role_may_change(path, as_user, fill, known_dags):
    fill.attempt("a", "ambiguous")
    listed = as_user("admin").get("/api/entries").json()["rows"]
    # The confirmation is that of another list.
    body = {**ENTRY, "ids": [row["id"] for row in listed]}
    assert statuses(as_user, "POST", path, body) == EXPECTED["POST", path]


@pytest.mark.promise("pages", "A user sees only the tasks of DAGs that Airflow lets the user read.")
def test_the_tasks_of_other_dags_are_refused(as_user, known_dags, ledger):
    mine = as_user("mine", "ADMIN")
    for method, path in OF_TASK:
        assert ask(mine, method, path).status_code in {200, 404}, path
        assert ask(mine, method, path.replace("{dag_id}", "other.kb")).status_code == 403, path


@pytest.mark.promise("security", "No reply of the pages is cached, or can run scripts.")
def test_replies_are_neither_kept_nor_run(admin, ledger):
    for method, path in ROUTES:
        headers = ask(admin, method, path).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy, path
        assert "script" not in policy, path
        assert headers["x-content-type-options"] == "nosniff", path
        assert headers["cache-control"] in {"no-store", "private, no-cache"}, path


def test_rights_on_all_dags_include_unknown_ones():
    def rights(readable, *, may_change_all=False):
        return Rights(frozenset({"a", "b"}), frozenset(readable), {"a"}.__contains__, lambda: may_change_all)

    assert rights("ab").selected is None
    assert rights("a").selected == {"a"}
    assert [rights("ab").may_settle(dag) for dag in ("a", "b", None, "gone")] == [True, False, False, False]
    assert rights("ab", may_change_all=True).may_settle("gone")
    # Without any DAG, nobody can have rights on all of them.
    assert Rights(frozenset(), frozenset(), bool, bool).selected == frozenset()


@pytest.mark.parametrize("name", ["..%2Fplugin.py", "plugin.py", "nothing.mjs", "Assistant.mjs", "assistant.mjs.map"])
def test_only_files_of_the_pages_are_served(name, admin):
    assert admin.get(f"/static/{name}").status_code == 404


def test_a_file_is_sent_again_only_if_it_has_changed(admin):
    first = admin.get("/static/assistant.mjs")
    assert (first.status_code, first.headers["content-type"]) == (200, "text/javascript; charset=utf-8")
    again = admin.get("/static/assistant.mjs", headers={"If-None-Match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
