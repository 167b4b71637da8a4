-- python -m tests.dbt.generate
-- Async requests by site and week: how they ended, and how long the complete ones took. Percentiles are interpolated
-- linearly, as everywhere in this package.
SELECT
    CAST(date_trunc('week', CAST(date AS TIMESTAMP)) AS DATE) AS week, -- Monday of the week
    service, -- Service
    tenant_id, -- Tenant
    site_id, -- Site
    count(*) AS requests, -- All requests
    count(*) FILTER (WHERE state = 'complete') AS complete, -- Requests with an answer
    count(*) FILTER (WHERE state = 'failed') AS failed, -- Requests that the service could not answer
    percentile_cont(0.5) WITHIN GROUP (ORDER BY seconds)
        FILTER (WHERE state = 'complete') AS seconds_p50, -- Median of the seconds
    percentile_cont(0.95) WITHIN GROUP (ORDER BY seconds)
        FILTER (WHERE state = 'complete') AS seconds_p95, -- 95th percentile of the seconds
    percentile_cont(0.99) WITHIN GROUP (ORDER BY seconds)
        FILTER (WHERE state = 'complete') AS seconds_p99, -- 99th percentile of the seconds
    max(seconds) FILTER (WHERE state = 'complete') AS seconds_max -- The slowest one
FROM {{ ref('stg_assistant__requests') }}
GROUP BY 1, 2, 3, 4
