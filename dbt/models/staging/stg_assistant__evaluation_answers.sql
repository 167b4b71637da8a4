-- python -m tests.dbt.generate
select
    "name",
    "service",
    "tenant_id",
    "site_id",
    "key",
    "repetition",
    "question",
    "answer",
    "status",
    "tags",
    "passed",
    "request_id",
    "session_id",
    "path",
    "dag_id",
    "run_id",
    "task_id",
    "map_index",
    "date",
    "loaded_at"
from {{ source('assistant', 'evaluation_answers') }}
