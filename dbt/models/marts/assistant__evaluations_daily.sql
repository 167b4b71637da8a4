-- python -m tests.dbt.generate
-- The last evaluation of each name and day, with one row per scorer.
SELECT
    date, -- Day of the run
    service, -- Service
    tenant_id, -- Tenant
    site_id, -- Site
    name, -- Name of the evaluation
    scorer, -- Scorer
    verdict, -- passed, failed, or none without a gate
    questions, -- Questions
    answered, -- Questions with an answer
    coverage, -- Share of questions with an answer
    pass_rate, -- Share of the judged questions that passed
    scored, -- Questions with a score
    mean, -- Weighted mean of the scores
    difference, -- Mean difference to the baseline
    difference_low, -- Lower end of its 95 % interval
    difference_high -- Upper end of its 95 % interval
FROM (
    SELECT
        *,
        rank() OVER (
            PARTITION BY date, service, tenant_id, site_id, name
            ORDER BY
                coalesce(asked_at, logical_date, loaded_at) DESC, run_id DESC, path DESC, dag_id,
                task_id, map_index
        ) AS place
    FROM {{ ref('stg_assistant__evaluations') }}
) AS runs
WHERE place = 1
