"""Run operators and DAGs in the process of the tests, see fixtures.py."""

# The bundle of all DAGs of the tests.
BUNDLE = "tests"
