-- python -m tests.dbt.generate
select
    "captured_at",
    "logical_date",
    "service",
    "tenant_id",
    "site_id",
    "raw",
    "date",
    "loaded_at"
from {{ source('assistant', 'statistics_raw') }}
