-- python -m tests.dbt.generate
-- The questions of rated answers, with how often their answers were rated bad. Only questions in the dataset answers.
SELECT
    service, -- Service
    tenant_id, -- Tenant
    site_id, -- Site
    question, -- The question
    CAST(count(*) FILTER (WHERE rating = 'bad') AS BIGINT) AS bad, -- Answers rated bad
    CAST(count(*) FILTER (WHERE rating = 'good') AS BIGINT) AS good, -- Answers rated good
    count(*) AS ratings, -- Rated answers; the last rating of each one counts
    max(sent_at) FILTER (WHERE rating = 'bad') AS last_rated_bad_at, -- When the last answer was rated bad
    max(answer) FILTER (WHERE place = 1) AS last_answer, -- The answer that was rated last
    max(request_id) FILTER (WHERE place = 1) AS last_request_id -- Its chat request
FROM (
    SELECT
        ratings.service, ratings.tenant_id, ratings.site_id, ratings.request_id, ratings.rating, ratings.sent_at,
        asked.question, asked.answer,
        row_number() OVER (
            PARTITION BY ratings.service, ratings.tenant_id, ratings.site_id, asked.question
            ORDER BY ratings.sent_at DESC, ratings.request_id
        ) AS place
    FROM {{ ref('assistant__feedback_latest') }} AS ratings
    JOIN (
        SELECT
            service, request_id, question, answer,
            row_number() OVER (PARTITION BY service, request_id ORDER BY date DESC, asked_at DESC, question) AS place
        FROM {{ ref('stg_assistant__answers') }}
        WHERE request_id IS NOT NULL
    ) AS asked ON asked.service = ratings.service AND asked.request_id = ratings.request_id AND asked.place = 1
) AS rated
GROUP BY service, tenant_id, site_id, question
HAVING count(*) FILTER (WHERE rating = 'bad') > 0
