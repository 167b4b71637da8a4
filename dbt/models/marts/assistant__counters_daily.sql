-- python -m tests.dbt.generate
-- Each number of the statistics by day, with its difference to the day before: how much a counter that only grows has
-- grown.
SELECT
    date, -- Day of the partition
    service, -- Service
    tenant_id, -- Tenant
    site_id, -- Site
    metric, -- Dotted path in the reply
    value, -- The number in the last capture of the day
    value_before, -- The number of the day before; null without a capture on that day
    -- NaN and infinity have no difference.
    CASE
        WHEN value >= value_before AND value < 'Infinity'
            AND period IS NOT DISTINCT FROM period_before
        THEN value - value_before
    END AS difference -- Null after a gap, a reset (a lower number) or a change of the period
FROM (
    SELECT
        date, service, tenant_id, site_id, metric, value, period,
        CASE WHEN lag(date) OVER days = date - 1 THEN lag(value) OVER days END AS value_before,
        CASE WHEN lag(date) OVER days = date - 1 THEN lag(period) OVER days END AS period_before
    FROM (
        SELECT
            captures.date, captures.service, captures.tenant_id, captures.site_id,
            captures.metric, captures.value, captures.period,
            row_number() OVER (
                PARTITION BY
                    captures.date, captures.service, captures.tenant_id, captures.site_id,
                    captures.metric
                ORDER BY captures.captured_at DESC
            ) AS place
        FROM {{ ref('stg_assistant__statistics') }} AS captures
        JOIN {{ source('assistant', 'metrics') }} AS known
            ON known.dataset = 'statistics' AND known.metric = captures.metric
            AND known.series IS NULL
        WHERE captures.type = 'number' AND captures.value IS NOT NULL
    ) AS last_captures
    WHERE place = 1
    WINDOW days AS (PARTITION BY service, tenant_id, site_id, metric ORDER BY date)
) AS numbers
