-- python -m tests.dbt.generate
select
    "captured_at",
    "logical_date",
    "tenant_id",
    "metric",
    "value",
    "text",
    "type",
    "period",
    "date"
from {{ source('assistant', 'limits') }}
