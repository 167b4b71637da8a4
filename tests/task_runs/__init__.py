"""Run operators and DAGs in the process of the tests."""
