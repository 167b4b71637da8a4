-- A ledger that schema version 8 wrote, as sqlite3 dumps it.
BEGIN TRANSACTION;
CREATE TABLE assistant_documents (
    scope VARCHAR(400) NOT NULL,
    "key" VARCHAR(64) NOT NULL,
    outcome VARCHAR(16) NOT NULL,
    attempts INTEGER NOT NULL,
    error TEXT,
    dag_id VARCHAR(250),
    run_id VARCHAR(250),
    task_id VARCHAR(250),
    map_index INTEGER,
    claimed_at DATETIME NOT NULL,
    recorded_at DATETIME,
    site_id VARCHAR(250) NOT NULL,
    label VARCHAR(250) NOT NULL,
    source VARCHAR(500) NOT NULL,
    content_hash VARCHAR(64),
    document_id VARCHAR(250),
    superseded TEXT,
    http_status INTEGER,
    ambiguous INTEGER NOT NULL,
    claim VARCHAR(32) NOT NULL,
    region VARCHAR(250),
    site_url VARCHAR(400),
    endpoint VARCHAR(250),
    namespace VARCHAR(250),
    sent_hash VARCHAR(64),
    PRIMARY KEY (scope, "key")
);
INSERT INTO "assistant_documents" VALUES('https://h/m2m/sites/docs/documents/text','6e9c0ce1becbae6401389e8d8d966c75','created',2,NULL,'dag','run','load',-1,'2026-11-21 08:00:00.000000','2026-11-21 08:00:00.000000','docs','a#1','dag.load','content a#1 2','doc a#1 2','["doc a#1 1"]',201,0,'70fc1ad15a394efe82c39b99ae1f8267',NULL,'https://h/m2m/sites/docs','documents/text',NULL,NULL);
INSERT INTO "assistant_documents" VALUES('https://h/m2m/sites/docs/documents/text','549bc93c235e06b245ad427520090bf4','created',1,NULL,'dag','run','load',-1,'2026-11-21 08:00:00.000000','2026-11-21 08:00:00.000000','docs','a#2','dag.load','content a#2 1','doc a#2 1',NULL,201,0,'70fc1ad15a394efe82c39b99ae1f8267',NULL,'https://h/m2m/sites/docs','documents/text',NULL,NULL);
INSERT INTO "assistant_documents" VALUES('https://h/m2m/sites/docs/documents/text','5474a5e9982d57ea8c53ebdff3b9f7d1','created',1,NULL,'dag','run','load',-1,'2026-11-21 08:00:00.000000','2026-11-21 08:00:00.000000','docs','b#1','dag.load','content b#1 1','doc b#1 1',NULL,201,0,'70fc1ad15a394efe82c39b99ae1f8267',NULL,'https://h/m2m/sites/docs','documents/text',NULL,NULL);
INSERT INTO "assistant_documents" VALUES('https://h/m2m/sites/docs/documents/text','c4ef4439789eaf9183b1c6fb620c2182','created',1,NULL,'dag','run','load',-1,'2026-11-21 08:00:00.000000','2026-11-21 08:00:00.000000','docs','b#2','dag.load','content b#2 1','doc b#2 1',NULL,201,0,'70fc1ad15a394efe82c39b99ae1f8267',NULL,'https://h/m2m/sites/docs','documents/text',NULL,NULL);
INSERT INTO "assistant_documents" VALUES('https://h/m2m/sites/docs/documents/text','a2f86bea1cc188b356140f461a0cc4e9','ambiguous',1,NULL,'dag','run','load',-1,'2026-11-21 08:00:00.000000','2026-11-21 08:00:00.000000','docs','c#1','dag.load',NULL,NULL,NULL,201,0,'70fc1ad15a394efe82c39b99ae1f8267',NULL,'https://h/m2m/sites/docs','documents/text',NULL,'content c#1 1');
CREATE TABLE assistant_leases (
    token VARCHAR(32) NOT NULL,
    heartbeat_at DATETIME NOT NULL,
    seconds FLOAT NOT NULL,
    dag_id VARCHAR(250),
    run_id VARCHAR(250),
    task_id VARCHAR(250),
    map_index INTEGER,
    region VARCHAR(250),
    PRIMARY KEY (token)
);
CREATE TABLE assistant_ledger_schema (
    version INTEGER NOT NULL
);
INSERT INTO "assistant_ledger_schema" VALUES(8);
CREATE TABLE assistant_loads (
    load_id VARCHAR(32) NOT NULL,
    scope VARCHAR(400) NOT NULL,
    endpoint VARCHAR(50) NOT NULL,
    site_id VARCHAR(250) NOT NULL,
    source VARCHAR(500) NOT NULL,
    dag_id VARCHAR(250),
    run_id VARCHAR(250),
    task_id VARCHAR(250),
    map_index INTEGER,
    started_at DATETIME NOT NULL,
    ended_at DATETIME,
    outcome VARCHAR(16),
    error TEXT,
    rows INTEGER,
    created INTEGER,
    unchanged INTEGER,
    skipped INTEGER,
    rejected INTEGER,
    ambiguous INTEGER,
    failed INTEGER,
    changed INTEGER,
    possibly_duplicated INTEGER,
    stale INTEGER,
    requests INTEGER,
    throttled INTEGER,
    seconds FLOAT,
    region VARCHAR(250),
    PRIMARY KEY (load_id)
);
INSERT INTO "assistant_loads" VALUES('bb29ad39d9bf4b26af1b9362e577323e','https://h/m2m/sites/docs','documents/text','docs','dag.load','dag','run','load',-1,'2026-11-21 08:00:00.000000','2026-11-21 08:00:00.000000','succeeded',NULL,5,4,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL,NULL);
CREATE TABLE assistant_questions (
    scope VARCHAR(400) NOT NULL,
    "key" VARCHAR(64) NOT NULL,
    outcome VARCHAR(16) NOT NULL,
    attempts INTEGER NOT NULL,
    error TEXT,
    dag_id VARCHAR(250),
    run_id VARCHAR(250),
    task_id VARCHAR(250),
    map_index INTEGER,
    claimed_at DATETIME NOT NULL,
    recorded_at DATETIME,
    site_id VARCHAR(250) NOT NULL,
    label VARCHAR(250) NOT NULL,
    source VARCHAR(500) NOT NULL,
    content_hash VARCHAR(64),
    request_id VARCHAR(250),
    superseded TEXT,
    http_status INTEGER,
    ambiguous INTEGER NOT NULL,
    claim VARCHAR(32) NOT NULL,
    state VARCHAR(16),
    completed_at DATETIME,
    session_id VARCHAR(250),
    region VARCHAR(250),
    site_url VARCHAR(400),
    mode VARCHAR(250),
    batch VARCHAR(250),
    sent_hash VARCHAR(64),
    PRIMARY KEY (scope, "key")
);
INSERT INTO "assistant_questions" VALUES('https://h/m2m/sites/docs/chat?async=b','e9218833bf2e15431219ac1ccd70ef24','created',1,NULL,'dag','run','load',-1,'2026-11-21 08:00:00.000000','2026-11-21 08:00:00.000000','docs','q','dag.ask','hash','request',NULL,NULL,0,'7419a4b902bf4de5b76cbe28adeeb21a',NULL,NULL,NULL,NULL,'https://h/m2m/sites/docs','async','b',NULL);
CREATE TABLE assistant_ratings (
    scope VARCHAR(400) NOT NULL,
    "key" VARCHAR(64) NOT NULL,
    outcome VARCHAR(16) NOT NULL,
    attempts INTEGER NOT NULL,
    error TEXT,
    dag_id VARCHAR(250),
    run_id VARCHAR(250),
    task_id VARCHAR(250),
    map_index INTEGER,
    claimed_at DATETIME NOT NULL,
    recorded_at DATETIME,
    site_id VARCHAR(250) NOT NULL,
    session_id VARCHAR(250) NOT NULL,
    request_id VARCHAR(250) NOT NULL,
    rating VARCHAR(250) NOT NULL,
    region VARCHAR(250),
    PRIMARY KEY (scope, "key")
);
CREATE TABLE assistant_submissions (
    scope VARCHAR(400) NOT NULL,
    "key" VARCHAR(64) NOT NULL,
    outcome VARCHAR(16) NOT NULL,
    attempts INTEGER NOT NULL,
    error TEXT,
    dag_id VARCHAR(250),
    run_id VARCHAR(250),
    task_id VARCHAR(250),
    map_index INTEGER,
    claimed_at DATETIME NOT NULL,
    recorded_at DATETIME,
    site_id VARCHAR(250) NOT NULL,
    session_id VARCHAR(250) NOT NULL,
    request_id VARCHAR(250),
    state VARCHAR(16),
    completed_at DATETIME,
    region VARCHAR(250),
    PRIMARY KEY (scope, "key")
);
CREATE INDEX assistant_submissions_by_request ON assistant_submissions (request_id);
CREATE INDEX assistant_submissions_open ON assistant_submissions (claimed_at) WHERE outcome = 'created' AND state IS NULL;
CREATE INDEX assistant_submissions_unresolved ON assistant_submissions (claimed_at) WHERE outcome IN ('claimed', 'ambiguous');
CREATE INDEX assistant_ratings_unresolved ON assistant_ratings (claimed_at) WHERE outcome IN ('claimed', 'ambiguous');
CREATE INDEX assistant_ratings_by_request ON assistant_ratings (request_id);
CREATE INDEX assistant_documents_unresolved ON assistant_documents (claimed_at) WHERE outcome IN ('claimed', 'ambiguous');
CREATE INDEX assistant_documents_superseded ON assistant_documents (claimed_at) WHERE superseded IS NOT NULL;
CREATE INDEX assistant_questions_unresolved ON assistant_questions (claimed_at) WHERE outcome IN ('claimed', 'ambiguous');
CREATE INDEX assistant_questions_open ON assistant_questions (claimed_at) WHERE outcome = 'created' AND state IS NULL;
CREATE INDEX ix_assistant_loads_started_at ON assistant_loads (started_at);
COMMIT;
