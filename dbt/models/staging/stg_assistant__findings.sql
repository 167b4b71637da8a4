-- python -m tests.dbt.generate
select
    "found_at",
    "service",
    "tenant_id",
    "site_id",
    "source",
    "endpoint",
    "kind",
    "key",
    "reason",
    "row",
    "document_ids",
    "group_name",
    "dag_id",
    "run_id",
    "task_id",
    "map_index",
    "date",
    "loaded_at"
from {{ source('assistant', 'findings') }}
