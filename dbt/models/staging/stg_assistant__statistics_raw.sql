-- python -m tests.dbt.generate
select
    "captured_at",
    "logical_date",
    "tenant_id",
    "site_id",
    "raw",
    "date"
from {{ source('assistant', 'statistics_raw') }}
