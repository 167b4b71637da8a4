-- python -m tests.dbt.generate
-- The last capture of each site and day, with a column for each metric that was ever a number.
SELECT
    date, -- Day of the partition
    service, -- Service
    tenant_id, -- Tenant
    site_id, -- Site
    captured_at -- When the last reply of the day arrived
    {%- for row in statistics_metrics() %}
    , max(value) FILTER (WHERE metric = '{{ row.metric.replace("'", "''") }}')
        AS "{{ row.column_name.replace('"', '""') }}"
    {%- endfor %}
FROM (
    SELECT
        date, service, tenant_id, site_id, captured_at, metric,
        -- A text such as "2026" has a value, too.
        CASE WHEN type = 'number' THEN value END AS value,
        max(captured_at) OVER (PARTITION BY date, service, tenant_id, site_id) AS last_captured_at
    FROM {{ ref('stg_assistant__statistics') }}
) AS captures
WHERE captured_at = last_captured_at
GROUP BY date, service, tenant_id, site_id, captured_at
