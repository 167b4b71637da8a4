{% test in_parent(model, to, columns) %}
{# Rows without a row of the parent that has the same values in all of these columns; two nulls are the same value. #}
select {{ columns | join(', ') }} from {{ model }}
except
select {{ columns | join(', ') }} from {{ to }}
{% endtest %}
