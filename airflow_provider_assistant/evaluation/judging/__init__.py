"""
Judges: scorers that ask a model whether an answer fulfils a rubric.

A judge is only as good as its agreement with people: :mod:`~airflow_provider_assistant.evaluation.agreement` measures
it on labelled answers, and the gate requires it.
"""
