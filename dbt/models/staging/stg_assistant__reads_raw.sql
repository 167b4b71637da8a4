-- python -m tests.dbt.generate
select
    "captured_at",
    "logical_date",
    "service",
    "tenant_id",
    "site_id",
    "user_label",
    "email",
    "read",
    "item",
    "raw",
    "date",
    "loaded_at"
from {{ source('assistant', 'reads_raw') }}
