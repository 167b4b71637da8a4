-- One row per rated chat request with its last rating: a rating that is repeated or changed counts once.
CREATE OR REPLACE VIEW $schema.feedback_latest AS
SELECT
    date, -- Day of the last rating
    service, -- Service
    tenant_id, -- Tenant
    site_id, -- Site
    session_id, -- Session
    request_id, -- Chat request
    sent_at, -- When the last rating was sent
    rating, -- Its word in small letters
    times_rated, -- How many ratings were sent
    answer_seconds -- Seconds from the submission of the request to its noticed end
FROM (
    SELECT
        date, service, tenant_id, site_id, session_id, request_id, sent_at, answer_seconds,
        lower(trim(rating)) AS rating,
        count(*) OVER (PARTITION BY service, tenant_id, site_id, request_id) AS times_rated,
        row_number() OVER (
            PARTITION BY service, tenant_id, site_id, request_id
            ORDER BY sent_at DESC, date DESC, lower(trim(rating))
        ) AS place
    FROM $schema.feedback
) AS ratings
WHERE place = 1
