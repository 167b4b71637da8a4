-- How many questions were asked by site and week, and how many of them were answered: the requests of the ledger, and
-- the other questions in the dataset answers.
CREATE OR REPLACE VIEW $schema.answers_weekly AS
SELECT
    CAST(date_trunc('week', CAST(date AS TIMESTAMP)) AS DATE) AS week, -- Monday of the week
    service, -- Service
    tenant_id, -- Tenant
    site_id, -- Site
    count(*) AS asked, -- Questions that were asked
    count(*) FILTER (WHERE is_answered) AS answered, -- Questions with an answer
    CAST(count(*) FILTER (WHERE is_answered) AS FLOAT8) / count(*) AS answer_rate -- Answered by asked
FROM (
    SELECT date, service, tenant_id, site_id, state = 'complete' AS is_answered
    FROM $schema.requests
    UNION ALL
    SELECT date, service, tenant_id, site_id, status = 'complete'
    FROM $schema.answers AS asked
    WHERE status <> 'not_submitted' AND NOT EXISTS (
        SELECT 1
        FROM $schema.requests AS known
        WHERE known.service = asked.service AND known.request_id = asked.request_id
    )
) AS questions
GROUP BY 1, 2, 3, 4
