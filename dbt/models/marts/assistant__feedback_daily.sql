-- python -m tests.dbt.generate
-- Rated chat requests by site and day. The last rating of a request counts, on its own day.
SELECT
    date, -- Day of the last rating
    service, -- Service
    tenant_id, -- Tenant
    site_id, -- Site
    count(*) AS ratings, -- Rated requests
    count(*) FILTER (WHERE rating = 'good') AS good, -- Rated good
    count(*) FILTER (WHERE rating = 'bad') AS bad, -- Rated bad
    count(*) FILTER (WHERE rating NOT IN ('good', 'bad')) AS other, -- Rated with another word
    CAST(count(*) FILTER (WHERE rating = 'good') AS FLOAT8) / count(*) AS good_share -- Good by ratings
FROM {{ ref('assistant__feedback_latest') }}
GROUP BY date, service, tenant_id, site_id
