-- python -m tests.dbt.generate
-- The values of earlier days, weeks, months or times that a reply lists itself. Of several captures, the last one counts.
SELECT
    listed.date, -- First day of the period
    captures.service, -- Service
    captures.tenant_id, -- Tenant
    captures.site_id, -- Site
    captures.captured_at, -- When the reply arrived
    listed.series, -- Path before the period; $ at the top of the reply
    listed.period, -- The period as in the reply, such as 2026-11-21 or 2026-W47
    listed.series_metric AS metric, -- Path after the period; $ if the period is the last name
    captures.value -- The number
FROM (
    SELECT
        service, tenant_id, site_id, captured_at, metric, value,
        row_number() OVER (
            PARTITION BY service, tenant_id, site_id, metric ORDER BY captured_at DESC
        ) AS place
    FROM {{ ref('stg_assistant__statistics') }}
    WHERE type = 'number'
) AS captures
JOIN {{ source('assistant', 'metrics') }} AS listed
    ON listed.dataset = 'statistics' AND listed.metric = captures.metric AND listed.series IS NOT NULL
WHERE captures.place = 1
