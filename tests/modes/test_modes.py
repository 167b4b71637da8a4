"""Every operator and sensor does the same in every mode of Airflow."""

from __future__ import annotations

import itertools

import pytest
from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG, TaskGroup

from airflow_provider_assistant.sensors.documents import AssistantDocumentsReadySensor
from tests.docs.generated import tasks
from tests.modes.modes import ONE_RUN, SEVERAL_RUNS, Runner, checked_fields, combinations, empty_template
from tests.modes.table import LINES, Place
from tests.modes.world import NOW, World


@pytest.fixture(scope="module")
def world(_server, _cheap_tasks, tmp_path_factory):
    _server.reset()
    with pytest.MonkeyPatch.context() as patch:
        yield World(_server, tmp_path_factory.mktemp("modes"), patch)


def test_the_table_has_a_line_for_each_operator_and_sensor():
    assert {line.kind for line in LINES} == set(tasks().values())


@pytest.mark.promise("Airflow", "Every task does the same with templates, XComs, mapping, deferral and task groups.")
@pytest.mark.parametrize("line", LINES, ids=lambda line: line.name)
def test_a_task_does_the_same_in_many_modes(line, world):
    """Each mode of one run, and half of the modes of several runs. ``make nightly`` runs each mode alone."""
    number = LINES.index(line)
    runner = Runner(world, line)
    assert runner.plain.run.state == "success", runner.plain.run.errors
    assert (runner.plain.posts, len(runner.plain.files)) == (line.posts, line.files), runner.plain.files
    problems = []
    for native, modes in combinations(line):
        runner.native = native
        problems += [f"{modes}, {native=}: {problem}" for problem in runner.problems_of(*modes)]
        for name in list(SEVERAL_RUNS)[2 * native + number % 2 :: 4]:
            problems += [f"{name}, {native=}: {problem}" for problem in SEVERAL_RUNS[name](runner)]
    assert not problems, "\n".join(problems)


def test_all_tasks_of_a_dag_that_airflow_runs_by_itself(world, run_dag):
    """Airflow's ``dag.test()`` with its database, task groups, a setup and a teardown."""
    folder = world.restore()
    with DAG("all_lines", schedule=None, default_args={"multiple_outputs": False}) as dag:
        first = EmptyOperator(task_id="first").as_setup()
        last = EmptyOperator(task_id="last").as_teardown(setups=first)
        for number, line in enumerate(LINES):
            with TaskGroup(f"group_{number}"):
                arguments = line.arguments(Place(folder, world.request_id, str(number)))
                first >> line.build(**arguments) >> last
    effects = world.observe(folder, lambda: run_dag(dag, logical_date=NOW, stored=True))
    assert effects.run.state == "success", effects.run.errors
    assert effects.posts == sum(line.posts for line in LINES)


def test_a_deferred_sensor_with_dag_test_which_loses_the_arguments_of_a_deferral(world, run_dag):
    (line,) = [line for line in LINES if line.kind is AssistantDocumentsReadySensor]
    place = Place(world.restore(), world.request_id)
    world.take_two_looks()
    with DAG("deferred_sensor", schedule=None) as dag:
        line.build(**line.arguments(place), deferrable=True)
    run = run_dag(dag, logical_date=NOW, stored=True)
    assert run.state == "success", run.errors


@pytest.mark.nightly
@pytest.mark.parametrize("native", [False, True])
@pytest.mark.parametrize("line", LINES, ids=lambda line: line.name)
def test_a_task_does_the_same_in_each_mode_alone(line, native, world):
    runner = Runner(world, line)
    assert runner.plain.run.state == "success", runner.plain.run.errors
    runner.native = native
    problems = []
    for name in ONE_RUN:
        problems += [f"{name}: {problem}" for problem in runner.problems_of(name)]
    for name, mode in SEVERAL_RUNS.items():
        problems += [f"{name}: {problem}" for problem in mode(runner)]
    for name, value in itertools.product(checked_fields(line), ("", None)):
        problems += empty_template(runner, name, value)
    assert not problems, "\n".join(problems)
