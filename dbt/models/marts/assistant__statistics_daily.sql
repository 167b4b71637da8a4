-- python -m tests.dbt.generate
select * from {{ source('assistant', 'statistics_daily') }}
