-- python -m tests.dbt.generate
select
    "submitted_at",
    "completed_at",
    "seconds",
    "state",
    "service",
    "tenant_id",
    "site_id",
    "session_id",
    "request_id",
    "attempts",
    "ambiguous",
    "is_batch",
    "dag_id",
    "run_id",
    "task_id",
    "map_index",
    "date",
    "loaded_at"
from {{ source('assistant', 'requests') }}
