-- python -m tests.dbt.generate
select
    "sent_at",
    "service",
    "tenant_id",
    "site_id",
    "session_id",
    "request_id",
    "rating",
    "answer_seconds",
    "attempts",
    "dag_id",
    "run_id",
    "task_id",
    "map_index",
    "date",
    "loaded_at"
from {{ source('assistant', 'feedback') }}
