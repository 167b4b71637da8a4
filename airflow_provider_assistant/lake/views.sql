-- How many questions were asked by site and week, and how many of them were answered: the async requests of the ledger,
-- and the other questions in the dataset answers. The week is its Monday.
CREATE VIEW $schema.answers_weekly AS
SELECT
    CAST(date_trunc('week', CAST(date AS TIMESTAMP)) AS DATE) AS week,
    service,
    site_id,
    count(*) AS asked,
    count(*) FILTER (WHERE is_answered) AS answered,
    CAST(count(*) FILTER (WHERE is_answered) AS FLOAT8) / count(*) AS answer_rate
FROM (
    SELECT date, service, site_id, state = 'complete' AS is_answered
    FROM $schema.requests
    UNION ALL
    SELECT date, service, site_id, status = 'complete'
    FROM $schema.answers AS asked
    WHERE status <> 'not_submitted' AND NOT EXISTS (
        SELECT 1
        FROM $schema.requests AS known
        WHERE known.service = asked.service AND known.request_id = asked.request_id
    )
) AS questions
GROUP BY 1, 2, 3;

-- Async requests by site and day: how they ended, and how long the complete ones took.
CREATE VIEW $schema.latency_daily AS
SELECT
    date,
    service,
    site_id,
    count(*) AS requests,
    count(*) FILTER (WHERE state = 'complete') AS complete,
    count(*) FILTER (WHERE state = 'failed') AS failed,
    percentile_cont(0.5) WITHIN GROUP (ORDER BY seconds) FILTER (WHERE state = 'complete') AS seconds_p50,
    percentile_cont(0.95) WITHIN GROUP (ORDER BY seconds) FILTER (WHERE state = 'complete') AS seconds_p95,
    percentile_cont(0.99) WITHIN GROUP (ORDER BY seconds) FILTER (WHERE state = 'complete') AS seconds_p99,
    max(seconds) FILTER (WHERE state = 'complete') AS seconds_max
FROM $schema.requests
GROUP BY 1, 2, 3;

-- One row per rated chat request, with its last rating in small letters and the number of its ratings.
CREATE VIEW $schema.feedback_latest AS
SELECT date, service, site_id, session_id, request_id, sent_at, rating, times_rated, answer_seconds
FROM (
    SELECT
        date, service, site_id, session_id, request_id, sent_at, answer_seconds,
        lower(trim(rating)) AS rating,
        count(*) OVER (PARTITION BY service, site_id, request_id) AS times_rated,
        row_number() OVER (
            PARTITION BY service, site_id, request_id ORDER BY sent_at DESC, date DESC, lower(trim(rating))
        ) AS place
    FROM $schema.feedback
) AS ratings
WHERE place = 1;

-- Rated chat requests by site and day. The last rating of a request counts, on its own day.
CREATE VIEW $schema.feedback_daily AS
SELECT
    date,
    service,
    site_id,
    count(*) AS ratings,
    count(*) FILTER (WHERE rating = 'good') AS good,
    count(*) FILTER (WHERE rating = 'bad') AS bad,
    count(*) FILTER (WHERE rating NOT IN ('good', 'bad')) AS other,
    CAST(count(*) FILTER (WHERE rating = 'good') AS FLOAT8) / count(*) AS good_share
FROM $schema.feedback_latest
GROUP BY 1, 2, 3;

-- Documents of the ledger by site, at the end of each day with loads, and what the loads of the day did.
CREATE VIEW $schema.documents_daily AS
SELECT
    date,
    service,
    site_id,
    CAST(sum(sum(added)) OVER (PARTITION BY service, site_id ORDER BY date) AS BIGINT) AS documents,
    CAST(sum(created) AS BIGINT) AS created,
    CAST(sum(deleted) AS BIGINT) AS deleted,
    CAST(sum(activated) AS BIGINT) AS activated,
    CAST(sum(deactivated) AS BIGINT) AS deactivated
FROM (
    SELECT
        date, service, site_id, created, deleted, activated, deactivated,
        -- A try that was killed does not say how many documents its source has.
        documents - lag(documents, 1, 0) OVER (
            PARTITION BY service, site_id, kind, source, documents IS NULL ORDER BY ended_at
        ) AS added
    FROM $schema.tries
    WHERE task_kind = 'load'
) AS loads
GROUP BY 1, 2, 3;

-- The questions of rated answers, with how often their answers were rated bad. Only questions in the dataset answers.
CREATE VIEW $schema.questions_rated_bad AS
SELECT
    service,
    site_id,
    question,
    count(*) FILTER (WHERE rating = 'bad') AS bad,
    count(*) FILTER (WHERE rating = 'good') AS good,
    count(*) AS ratings,
    max(sent_at) FILTER (WHERE rating = 'bad') AS last_rated_bad_at,
    max(answer) FILTER (WHERE place = 1) AS last_answer,
    max(request_id) FILTER (WHERE place = 1) AS last_request_id
FROM (
    SELECT
        ratings.service, ratings.site_id, ratings.request_id, ratings.rating, ratings.sent_at, asked.question,
        asked.answer,
        row_number() OVER (
            PARTITION BY ratings.service, ratings.site_id, asked.question
            ORDER BY ratings.sent_at DESC, ratings.request_id
        ) AS place
    FROM $schema.feedback_latest AS ratings
    JOIN (
        SELECT
            service, request_id, question, answer,
            row_number() OVER (PARTITION BY service, request_id ORDER BY date DESC, asked_at DESC, question) AS place
        FROM $schema.answers
        WHERE request_id IS NOT NULL
    ) AS asked ON asked.service = ratings.service AND asked.request_id = ratings.request_id AND asked.place = 1
) AS rated
GROUP BY 1, 2, 3
HAVING count(*) FILTER (WHERE rating = 'bad') > 0;
