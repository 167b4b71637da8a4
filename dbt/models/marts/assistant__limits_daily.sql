-- python -m tests.dbt.generate
-- The limits of each tenant and day: how much is allowed and how much is used, as the last reply of limits or usage of
-- the day says.
SELECT
    date, -- Day
    service, -- Service
    tenant_id, -- Tenant
    limit_name, -- What is limited, such as documents
    limit_value, -- How much is allowed; null if the replies do not say it
    used, -- How much is used
    coalesce(remaining, CASE WHEN limit_value >= used THEN limit_value - used END) AS remaining, -- How much is left
    CASE WHEN limit_value > 0 AND limit_value < 'Infinity' THEN used / limit_value END AS share_used -- Used by limit
FROM (
    SELECT
        date, service, tenant_id, limit_name,
        max(value) FILTER (WHERE limit_part = 'limit') AS limit_value,
        coalesce(
            max(value) FILTER (WHERE limit_part = 'used'),
            max(value) FILTER (WHERE limit_part = 'limit') - max(value) FILTER (WHERE limit_part = 'remaining')
        ) AS used,
        max(value) FILTER (WHERE limit_part = 'remaining') AS remaining
    FROM (
        SELECT
            replies.date, replies.service, replies.tenant_id, known.limit_name, known.limit_part, replies.value,
            row_number() OVER (
                PARTITION BY
                    replies.date, replies.service, replies.tenant_id, known.limit_name, known.limit_part
                ORDER BY replies.source, replies.captured_at DESC, replies.metric
            ) AS place
        FROM (
            SELECT date, service, tenant_id, captured_at, metric, value, 'limits' AS source
            FROM {{ ref('stg_assistant__limits') }}
            WHERE value IS NOT NULL
            UNION ALL
            -- Some services say in the reply of the usage how much is used.
            SELECT date, service, tenant_id, captured_at, metric, value, 'reads'
            FROM {{ ref('stg_assistant__reads') }}
            WHERE value IS NOT NULL AND read = 'usage' AND item IS NULL AND site_id IS NULL
        ) AS replies
        JOIN {{ source('assistant', 'metrics') }} AS known
            ON known.dataset = replies.source AND known.metric = replies.metric
            AND known.limit_name IS NOT NULL
    ) AS parts
    WHERE place = 1
    GROUP BY date, service, tenant_id, limit_name
) AS limits
WHERE limit_value IS NOT NULL OR remaining IS NOT NULL
