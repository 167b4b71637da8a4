-- python -m tests.dbt.generate
-- Documents by site and day: how many there are as the statistics say, and what the loads of that day did.
SELECT
    date, -- Day
    service, -- Service
    tenant_id, -- Tenant
    site_id, -- Site
    max(documents) AS documents, -- Documents in the last statistics of the day; null without such a metric
    max(metric) AS metric, -- Metric that says so
    sum(created) AS created, -- Documents that loads created; null if no load is known
    sum(deleted) AS deleted, -- Documents that loads deleted
    sum(activated) AS activated, -- Documents that loads activated
    sum(deactivated) AS deactivated -- Documents that loads deactivated
FROM (
    SELECT
        date, service, tenant_id, site_id, value AS documents, metric,
        CAST(NULL AS BIGINT) AS created, CAST(NULL AS BIGINT) AS deleted,
        CAST(NULL AS BIGINT) AS activated, CAST(NULL AS BIGINT) AS deactivated,
        -- The last capture; then the usual name that comes first in the alphabet.
        row_number() OVER (
            PARTITION BY date, service, tenant_id, site_id
            ORDER BY captured_at DESC, length(metric) DESC, metric
        ) AS place
    FROM {{ ref('stg_assistant__statistics') }}
    WHERE type = 'number' AND value IS NOT NULL
        AND lower(metric) ~ '^((data|result|site|statistics|stats|counts|totals?)\.)*(documents(\.(total|count|all))?|documents?_(total|count)|total_documents|num_documents)$'
    UNION ALL
    SELECT
        date, service, tenant_id, site_id, NULL, NULL, created, deleted, activated, deactivated, 1
    FROM {{ ref('stg_assistant__loads') }}
) AS found
WHERE place = 1
GROUP BY date, service, tenant_id, site_id
HAVING count(documents) + count(created) > 0
