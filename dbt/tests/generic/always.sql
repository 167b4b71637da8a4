{% test always(model, expression) %}
{# Rows for which an expression is false. Null is accepted. #}
select * from {{ model }} where not ({{ expression }})
{% endtest %}
