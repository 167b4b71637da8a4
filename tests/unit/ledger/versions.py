"""Ledgers as older versions of the package created them."""

from __future__ import annotations

from pathlib import Path

# Created by version 1.
EFFECT = """
    scope VARCHAR(400) NOT NULL, "key" VARCHAR(64) NOT NULL, outcome VARCHAR(16) NOT NULL, attempts INTEGER NOT NULL,
    error TEXT, dag_id VARCHAR(250), run_id VARCHAR(250), task_id VARCHAR(250), map_index INTEGER,
    intended_at DATETIME NOT NULL, settled_at DATETIME,
"""
VERSION_1 = f"""
CREATE TABLE assistant_ledger_schema (version INTEGER NOT NULL);
INSERT INTO assistant_ledger_schema VALUES (1);
CREATE TABLE assistant_submissions ({EFFECT}
    site_id VARCHAR(250) NOT NULL, session_id VARCHAR(250) NOT NULL, request_id VARCHAR(250), state VARCHAR(16),
    completed_at DATETIME, PRIMARY KEY (scope, "key"));
CREATE TABLE assistant_ratings ({EFFECT}
    site_id VARCHAR(250) NOT NULL, session_id VARCHAR(250) NOT NULL, request_id VARCHAR(250) NOT NULL,
    rating VARCHAR(250) NOT NULL, PRIMARY KEY (scope, "key"));
INSERT INTO assistant_ratings VALUES ('s', 'k', 'done', 1, NULL, 'dag', 'run', 'task', -1,
    '2026-11-21 08:00:00.000000', '2026-11-21 08:00:01.000000', 'docs', 'session', 'request', 'good');
"""
# Added by version 2.
VERSION_2 = f"""{VERSION_1}
INSERT INTO assistant_ledger_schema VALUES (2);
CREATE TABLE assistant_documents ({EFFECT}
    site_id VARCHAR(250) NOT NULL, label VARCHAR(250) NOT NULL, source VARCHAR(500) NOT NULL,
    content_hash VARCHAR(64), document_id VARCHAR(250), superseded TEXT, http_status INTEGER,
    ambiguous INTEGER NOT NULL, claim VARCHAR(32) NOT NULL, PRIMARY KEY (scope, "key"));
INSERT INTO assistant_documents VALUES ('s/documents/qa', 'old', 'done', 1, NULL, 'dag', 'run', 'task', -1,
    '2026-11-21 08:00:00.000000', '2026-11-21 08:00:01.000000', 'docs', 'label', 'kb', 'hash', 'id', NULL, 201, 0, 'c');
"""
# Added by version 3.
VERSION_3 = f"""{VERSION_2}
INSERT INTO assistant_ledger_schema VALUES (3);
CREATE TABLE assistant_questions ({EFFECT}
    site_id VARCHAR(250) NOT NULL, label VARCHAR(250) NOT NULL, source VARCHAR(500) NOT NULL,
    content_hash VARCHAR(64), request_id VARCHAR(250), superseded TEXT, http_status INTEGER,
    ambiguous INTEGER NOT NULL, claim VARCHAR(32) NOT NULL, PRIMARY KEY (scope, "key"));
INSERT INTO assistant_questions VALUES ('https://h/m2m/sites/docs/chat?async=b', 'old', 'done', 1, NULL, 'dag', 'run',
    'task', -1, '2026-11-21 08:00:00.000000', '2026-11-21 08:00:01.000000', 'docs', 'label', 'dag.task', 'hash', 'req',
    NULL, 202, 0, 'c');
"""
# Added by version 4, with an entry in every table.
VERSION_4 = f"""{VERSION_3}
INSERT INTO assistant_ledger_schema VALUES (4);
ALTER TABLE assistant_questions ADD COLUMN state VARCHAR(16);
ALTER TABLE assistant_questions ADD COLUMN completed_at DATETIME;
ALTER TABLE assistant_questions ADD COLUMN session_id VARCHAR(250);
CREATE INDEX ix_assistant_submissions_request_id ON assistant_submissions (request_id);
CREATE INDEX ix_assistant_ratings_request_id ON assistant_ratings (request_id);
INSERT INTO assistant_submissions VALUES ('s', 'k', 'done', 1, NULL, 'dag', 'run', 'task', -1,
    '2026-11-21 08:00:00.000000', '2026-11-21 08:00:01.000000', 'docs', 'session', 'request', 'complete',
    '2026-11-21 08:00:02.000000');
CREATE TABLE assistant_loads (
    load_id VARCHAR(32) NOT NULL, scope VARCHAR(400) NOT NULL, endpoint VARCHAR(50) NOT NULL,
    site_id VARCHAR(250) NOT NULL, source VARCHAR(500) NOT NULL, dag_id VARCHAR(250), run_id VARCHAR(250),
    task_id VARCHAR(250), map_index INTEGER, started_at DATETIME NOT NULL, ended_at DATETIME, outcome VARCHAR(16),
    error TEXT, "rows" INTEGER, created INTEGER, unchanged INTEGER, skipped INTEGER, rejected INTEGER,
    ambiguous INTEGER, failed INTEGER, changed INTEGER, possibly_duplicated INTEGER, stale INTEGER, requests INTEGER,
    throttled INTEGER, seconds FLOAT, PRIMARY KEY (load_id));
CREATE INDEX ix_assistant_loads_started_at ON assistant_loads (started_at);
INSERT INTO assistant_loads (load_id, scope, endpoint, site_id, source, started_at)
    VALUES ('load', 's', 'documents/qa', 'docs', 'kb', '2026-11-21 08:00:00.000000');
"""
# Added by version 5: the iteration of a task loop. An entry of every outcome is in every table of effects.
_TABLES = ("submissions", "ratings", "documents", "questions", "loads")
_RUN = "'dag', 'run', 'task', -1, '2026-11-21 08:00:00.000000', NULL, 'docs'"
_OUTCOMES = ("done", "intended", "ambiguous", "refused")
VERSION_5 = f"""{VERSION_4}
INSERT INTO assistant_ledger_schema VALUES (5);
DROP INDEX ix_assistant_submissions_request_id;
DROP INDEX ix_assistant_ratings_request_id;
CREATE INDEX assistant_submissions_by_request ON assistant_submissions (request_id);
CREATE INDEX assistant_ratings_by_request ON assistant_ratings (request_id);
{"".join(f"ALTER TABLE assistant_{name} ADD COLUMN region VARCHAR(250);" for name in _TABLES)}
""" + "".join(
    f"""
INSERT INTO assistant_submissions VALUES ('site', '{outcome}', '{outcome}', 1, NULL, {_RUN}, 's', 'r', NULL, NULL,
    NULL);
INSERT INTO assistant_ratings VALUES ('site', '{outcome}', '{outcome}', 1, NULL, {_RUN}, 's', 'r', 'good', NULL);
INSERT INTO assistant_documents VALUES ('https://h/m2m/sites/a%20b/documents/text#x/documents/qa', '{outcome}',
    '{outcome}', 1, NULL, {_RUN}, 'label', 'kb', 'hash', 'id', NULL, 503, 0, 'c', NULL);
INSERT INTO assistant_questions VALUES ('https://h/m2m/sites/docs/chat?sync=c?async=d', '{outcome}', '{outcome}', 1,
    NULL, {_RUN}, 'label', 'kb', 'hash', 'r', NULL, 400, 0, 'c', NULL, NULL, NULL, NULL);
"""
    for outcome in _OUTCOMES
)
# Changed by version 6: names of outcomes and times. Added: the parts of a scope.
_EFFECTS = _TABLES[:-1]
VERSION_6 = f"""{VERSION_5}
INSERT INTO assistant_ledger_schema VALUES (6);
{"".join(f"ALTER TABLE assistant_{name} RENAME COLUMN intended_at TO claimed_at;" for name in _EFFECTS)}
{"".join(f"ALTER TABLE assistant_{name} RENAME COLUMN settled_at TO recorded_at;" for name in _EFFECTS)}
{"".join(f"UPDATE assistant_{name} SET outcome = 'created' WHERE outcome = 'done';" for name in _EFFECTS)}
{"".join(f"UPDATE assistant_{name} SET outcome = 'claimed' WHERE outcome = 'intended';" for name in _EFFECTS)}
{"".join(f"UPDATE assistant_{name} SET outcome = 'failed' WHERE outcome = 'refused';" for name in _EFFECTS)}
ALTER TABLE assistant_documents ADD COLUMN site_url VARCHAR(400);
ALTER TABLE assistant_documents ADD COLUMN endpoint VARCHAR(250);
ALTER TABLE assistant_documents ADD COLUMN namespace VARCHAR(250);
ALTER TABLE assistant_questions ADD COLUMN site_url VARCHAR(400);
ALTER TABLE assistant_questions ADD COLUMN mode VARCHAR(250);
ALTER TABLE assistant_questions ADD COLUMN batch VARCHAR(250);
"""
# Added by version 7: leases.
VERSION_7 = f"""{VERSION_6}
INSERT INTO assistant_ledger_schema VALUES (7);
CREATE TABLE assistant_leases (token VARCHAR(32) NOT NULL, heartbeat_at DATETIME NOT NULL, seconds FLOAT NOT NULL,
    dag_id VARCHAR(250), run_id VARCHAR(250), task_id VARCHAR(250), map_index INTEGER, region VARCHAR(250),
    PRIMARY KEY (token));
"""
# Added by version 8: the content of ambiguous documents, and indexes. A dump of the ledger of a load of that version.
VERSION_8 = (Path(__file__).parent / "version_8.sql").read_text()
# The statement by which versions before 6 claim a question.
FORMER_CLAIM = """
INSERT INTO assistant_questions (scope, site_id, source, claim, dag_id, run_id, task_id, map_index, intended_at,
    "key", label, attempts, ambiguous, outcome)
VALUES ('https://h/m2m/sites/docs/chat?async=b', 'docs', 'dag.task', 'c', 'dag', 'run', 'task', -1,
    '2026-11-21 08:00:00.000000', 'new', 'label', 0, 0, 'intended')
"""
