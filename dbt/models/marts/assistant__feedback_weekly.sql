-- python -m tests.dbt.generate
-- One row per site and week, which begins on its Monday: how many ratings were sent, how many of them are "good", and
-- how many there are per async request of that week.
WITH rated AS (
    SELECT
        CAST(date_trunc('week', CAST(date AS TIMESTAMP)) AS DATE) AS week,
        site_id,
        count(*) AS ratings,
        count(*) FILTER (WHERE lower(rating) = 'good') AS good
    FROM {{ ref('stg_assistant__feedback') }}
    GROUP BY 1, 2
),
asked AS (
    SELECT CAST(date_trunc('week', CAST(date AS TIMESTAMP)) AS DATE) AS week, site_id, count(*) AS requests
    FROM {{ ref('stg_assistant__requests') }}
    GROUP BY 1, 2
)
SELECT
    week,
    site_id,
    coalesce(ratings, 0) AS ratings,
    coalesce(good, 0) AS good,
    CAST(good AS FLOAT8) / ratings AS good_share,
    coalesce(requests, 0) AS requests,
    CAST(coalesce(ratings, 0) AS FLOAT8) / requests AS ratings_per_request
FROM rated
FULL JOIN asked USING (week, site_id)
