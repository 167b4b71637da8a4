-- Async requests by site and day: how they ended, and how long the complete ones took. Percentiles are interpolated
-- linearly, as everywhere in this package.
CREATE OR REPLACE VIEW $schema.latency_daily AS
SELECT
    date, -- Day of the submission
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
FROM $schema.requests
GROUP BY 1, 2, 3, 4
