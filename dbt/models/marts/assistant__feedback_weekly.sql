-- python -m tests.dbt.generate
-- Rated chat requests by site and week, and how many there are per async request of that week.
SELECT
    week, -- Monday of the week
    service, -- Service
    tenant_id, -- Tenant
    site_id, -- Site
    ratings, -- Rated requests; the last rating of a request counts
    good, -- Rated good
    bad, -- Rated bad
    other, -- Rated with another word
    CAST(good AS FLOAT8) / nullif(ratings, 0) AS good_share, -- Good by ratings; null without ratings
    requests, -- Async requests that were submitted
    CAST(ratings AS FLOAT8) / nullif(requests, 0) AS ratings_per_request -- Ratings by requests; null without requests
FROM (
    SELECT
        CAST(date_trunc('week', CAST(date AS TIMESTAMP)) AS DATE) AS week, service, tenant_id, site_id,
        CAST(sum(ratings) AS BIGINT) AS ratings, CAST(sum(good) AS BIGINT) AS good,
        CAST(sum(bad) AS BIGINT) AS bad, CAST(sum(other) AS BIGINT) AS other,
        CAST(sum(requests) AS BIGINT) AS requests
    FROM (
        SELECT date, service, tenant_id, site_id, ratings, good, bad, other, 0 AS requests
        FROM {{ ref('assistant__feedback_daily') }}
        UNION ALL
        SELECT date, service, tenant_id, site_id, 0, 0, 0, 0, 1
        FROM {{ ref('stg_assistant__requests') }}
    ) AS counts
    GROUP BY 1, 2, 3, 4
) AS weeks
