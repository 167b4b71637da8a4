-- python -m tests.dbt.generate
-- One row per site and day: async requests by how they ended, and how long the complete ones took. Percentiles are
-- interpolated linearly, as everywhere in this package.
SELECT
    date,
    site_id,
    count(*) AS requests,
    count(*) FILTER (WHERE state = 'complete') AS complete,
    count(*) FILTER (WHERE state = 'failed') AS failed,
    percentile_cont(0.5) WITHIN GROUP (ORDER BY seconds) FILTER (WHERE state = 'complete') AS seconds_p50,
    percentile_cont(0.95) WITHIN GROUP (ORDER BY seconds) FILTER (WHERE state = 'complete') AS seconds_p95,
    percentile_cont(0.99) WITHIN GROUP (ORDER BY seconds) FILTER (WHERE state = 'complete') AS seconds_p99,
    max(seconds) FILTER (WHERE state = 'complete') AS seconds_max
FROM {{ ref('stg_assistant__requests') }}
GROUP BY date, site_id
