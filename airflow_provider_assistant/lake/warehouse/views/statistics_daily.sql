-- One row per site and day: its last capture of that day, with a column for each metric that was ever a number.
-- The columns are made of the rows that are loaded, for example:
--     max(value) FILTER (WHERE metric = 'documents.total') AS "documents.total"
CREATE OR REPLACE VIEW $schema.statistics_daily AS
SELECT
    date,
    tenant_id,
    site_id,
    captured_at$metrics
FROM (
    SELECT
        date, tenant_id, site_id, captured_at, metric, value,
        max(captured_at) OVER (PARTITION BY date, tenant_id, site_id) AS last_captured_at
    FROM $schema.statistics
) AS captures
WHERE captured_at = last_captured_at
GROUP BY date, tenant_id, site_id, captured_at
