-- python -m tests.dbt.generate
-- One row per site, series, day and metric of the days that a reply lists itself: metrics below a date. Of a metric
-- that several captures have, the last capture counts. daily.2026-11-21.documents.total, for example, is the metric
-- documents.total of 21 November in the series daily.
SELECT
    -- Not a cast of the whole date: one 30 February in a reply would make the view an error.
    CAST(regexp_replace(metric, '^(.+)\.([12][0-9]{3})-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])\.(.+)$', '\2-\3-01') AS DATE)
        + (CAST(regexp_replace(metric, '^(.+)\.([12][0-9]{3})-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])\.(.+)$', '\4') AS INTEGER) - 1) AS date,
    tenant_id,
    site_id,
    captured_at,
    regexp_replace(metric, '^(.+)\.([12][0-9]{3})-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])\.(.+)$', '\1') AS series,
    regexp_replace(metric, '^(.+)\.([12][0-9]{3})-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])\.(.+)$', '\5') AS metric,
    value
FROM (
    SELECT
        tenant_id, site_id, captured_at, metric, value,
        row_number() OVER (PARTITION BY tenant_id, site_id, metric ORDER BY captured_at DESC) AS place
    FROM {{ ref('stg_assistant__statistics') }}
    WHERE type = 'number' AND metric ~ '^(.+)\.([12][0-9]{3})-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])\.(.+)$'
) AS captures
WHERE place = 1
