{% macro statistics_metrics() %}
{# The metrics that are columns of assistant__statistics_daily, in the order of these columns. #}
{% set metrics = source('assistant', 'metrics') %}
{% if not execute %}{{ return([]) }}{% endif %}
{% set query %}
select metric, column_name from {{ metrics }}
where dataset = 'statistics' and column_name is not null
order by position
{% endset %}
{{ return(run_query(query).rows) }}
{% endmacro %}
