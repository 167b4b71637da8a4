{% test unique_combination(model, columns) %}
{# Rows that have the same values in all of these columns; two nulls are the same value. #}
select {{ columns | join(', ') }}, count(*) as rows_with_these_values
from {{ model }}
group by {{ columns | join(', ') }}
having count(*) > 1
{% endtest %}
