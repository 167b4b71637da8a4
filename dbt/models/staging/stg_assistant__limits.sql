-- python -m tests.dbt.generate
select
    "captured_at",
    "logical_date",
    "service",
    "tenant_id",
    "site_id",
    "metric",
    "value",
    "text",
    "type",
    "period",
    "date",
    "loaded_at"
from {{ source('assistant', 'limits') }}
