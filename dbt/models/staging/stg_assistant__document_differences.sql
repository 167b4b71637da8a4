-- python -m tests.dbt.generate
select
    "compared_at",
    "service",
    "tenant_id",
    "site_id",
    "kind",
    "document_id",
    "title",
    "state",
    "status",
    "created_at",
    "source",
    "label",
    "other_id",
    "dag_id",
    "run_id",
    "task_id",
    "map_index",
    "date",
    "loaded_at"
from {{ source('assistant', 'document_differences') }}
