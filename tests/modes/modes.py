"""The modes: how a task is built, run and compared with its plainest run."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest
from airflow.providers.standard.operators.python import PythonOperator
from airflow.sdk import DAG, TaskGroup, task
from airflow.triggers.base import TriggerEvent

from airflow_provider_assistant.exceptions import AssistantInputError
from airflow_provider_assistant.hooks import task_parameters
from airflow_provider_assistant.hooks.assistant import AssistantHook
from tests.modes.table import LINES, Line, Place
from tests.modes.world import CONNECTION, NOW, SITE, Effects, World
from tests.task_runs.in_memory import run_in_memory

# Modes of one run, which can be combined: each changes how the task is built and run.
ONE_RUN: dict[str, Callable[[Plan], None]] = {}
# Those of several runs. Each returns what is wrong.
SEVERAL_RUNS: dict[str, Callable[[Runner], list[str]]] = {}
EXCLUSIVE = (("templates", "xcom_arguments"), ("setup", "teardown"), ("without_xcom", "xcom_in_object_storage"))


def one_run(function: Callable[[Plan], None]) -> Callable[[Plan], None]:
    ONE_RUN[function.__name__] = function
    return function


def several_runs(function: Callable[[Runner], list[str]]) -> Callable[[Runner], list[str]]:
    SEVERAL_RUNS[function.__name__] = function
    return function


@dataclass
class Plan:
    """
    How a task is built and run.

    :param dag: Options of the DAG.
    :param groups: Ids of the task groups around the task.
    :param from_xcom: Arguments that come from another task.
    :param in_defaults: Arguments that are in ``default_args``.
    :param method: ``as_setup`` or ``as_teardown``.
    :param storage: Whether XComs are in object storage.
    :param run: Options of the run.
    """

    line: Line
    place: Place
    arguments: dict[str, Any]
    dag: dict[str, Any] = field(default_factory=dict)
    groups: tuple[str, ...] = ()
    from_xcom: tuple[str, ...] = ()
    in_defaults: tuple[str, ...] = ()
    method: str | None = None
    storage: bool = False
    run: dict[str, Any] = field(default_factory=dict)

    def built(self, read: list[Any]) -> DAG:
        """Return the DAG, in which another task reads the result if XComs are in object storage."""
        defaults = {**self.dag.pop("default_args", {}), **self._some(self.in_defaults)}
        with DAG("modes", schedule=None, default_args=defaults, **self.dag) as dag, ExitStack() as stack:
            given = self._some(self.from_xcom)
            taken: dict[str, Any] = {}
            if given:

                @task(multiple_outputs=True)
                def values() -> dict[str, Any]:
                    return given

                outputs = values()
                taken = {name: outputs[name] for name in given}
            for group in self.groups:
                stack.enter_context(TaskGroup(group))
            direct = {name: self.arguments[name] for name in self.arguments if name not in self.in_defaults}
            operator = self.line.build(**{**direct, **taken})
            if self.method:
                getattr(operator, self.method)()
            if self.storage:
                PythonOperator(task_id="read", python_callable=read.append, op_args=[operator.output])
        return dag

    def _some(self, names: Iterable[str]) -> dict[str, Any]:
        return {name: self.arguments[name] for name in names}


class Runner:
    """
    Runs the task of a line.

    :param native: Whether templates become native objects.
    """

    def __init__(self, world: World, line: Line, *, native: bool = False) -> None:
        self.world, self.line, self.native = world, line, native

    def restored(self, **changes: Any) -> Plan:
        """Restore the world, and return the plan of the next run."""
        place = Place(self.world.restore(), self.world.request_id)
        arguments = {**self.line.arguments(place), **changes}
        return Plan(self.line, place, arguments, {"render_template_as_native_obj": self.native})

    def run(self, plan: Plan, map_index: int = -1, dag: DAG | None = None, **run: Any) -> Effects:
        """Run a plan, and return what it has done."""
        read: list[Any] = []
        dag = dag or plan.built(read)
        options = {"run_id": "run", "logical_date": NOW, **plan.run, **run}
        task_id = ".".join((*plan.groups, "task"))
        folder = plan.place.folder
        with _object_storage(folder / "xcoms") if plan.storage else nullcontext():
            effects = self.world.observe(folder, lambda: run_in_memory(dag, **options), task_id, map_index)
        if plan.storage and read:
            effects.result = self.world.plain(read[0], folder)
            files = [file for file in effects.files if not file[0].startswith("xcoms")]
            assert len(files) < len(effects.files), "no XCom is in the folder"
            effects.files[:] = files
        return effects

    @functools.cached_property
    def plain(self) -> Effects:
        return self.run(self.restored())

    def problems_of(self, *modes: str) -> list[str]:
        """Return what differs from the plain run in a run with these modes."""
        plan = self.restored()
        for name in modes:
            if name not in self.line.not_in:
                ONE_RUN[name](plan)
        effects = self.run(plan)
        if plan.arguments.get("do_xcom_push", True):
            return effects.differences(self.plain)
        left = [key for place, _, key in effects.run.values if place != "values" and not key.startswith("_link_")]
        return effects.differences(self.plain, "requests", "files", "stored") + left


def combinations(line: Line) -> list[tuple[bool, list[str]]]:
    """Return two sets of modes, each with whether objects are native: together they have every mode of one run."""
    chance = Random(line.name)
    sets: tuple[list[str], list[str]] = (["default_args"], [])
    for pair in EXCLUSIVE:
        shuffled = pair if pair[0] == "templates" else chance.sample(pair, 2)
        for modes, name in zip(sets, shuffled, strict=True):
            modes.append(name)
    for name in ("task_group", "without_logical_date"):
        chance.choice(sets).append(name)
    native = chance.random() < 0.5
    return [(native, sets[0]), (not native, sets[1])]


# -- rendering ------------------------------------------------------------------------------------


def _templated(value: Any, name: str, values: dict[str, Any]) -> Any:
    """Return an argument with a template for each text in it; ``values`` gets the texts."""
    if isinstance(value, str):
        values[name] = value
        return f"{{{{ given['{name}'] }}}}"
    if isinstance(value, dict):
        return {key: _templated(item, f"{name}.{key}", values) for key, item in value.items()}
    if isinstance(value, list):
        return [_templated(item, f"{name}.{number}", values) for number, item in enumerate(value)]
    return value


@one_run
def templates(plan: Plan) -> None:
    values: dict[str, Any] = {}
    for name, value in plan.arguments.items():
        # Rows are never templates.
        if name in plan.line.kind.template_fields and name not in {"source", "expectations"}:
            plan.arguments[name] = _templated(value, name, values)
    plan.dag["user_defined_macros"] = {"given": values}


# Parameters that another one excludes.
EXCLUDES = {"conn_id": "database", "document_ids": "source_name"}


def checked_fields(line: Line) -> list[str]:
    """Return the template fields that are parameters of this package."""
    return [name for name in line.kind.template_fields if name in task_parameters.parameters_of(line.kind)]


def empty_template(runner: Runner, name: str, value: Any) -> list[str]:
    """Give one field a template without a value."""
    plan = runner.restored(**{name: "{{ given }}"})
    plan.arguments.pop(EXCLUDES.get(name), None)
    plan.dag["user_defined_macros"] = {"given": value}
    effects = runner.run(plan)
    problems = []
    if effects.run.state != "failed" or not isinstance(effects.run.error, AssistantInputError):
        problems.append(f"{effects.run.state} {effects.run.errors}")
    elif f"task 'task': {name} " not in str(effects.run.error):
        problems.append(str(effects.run.error))
    if effects.requests or effects.files:
        problems.append(f"{effects.requests} {effects.files}")
    return [f"{name}={value!r}: {problem}" for problem in problems]


@several_runs
def empty_templates(runner: Runner) -> list[str]:
    """Some of the fields; `make nightly` has all of them."""
    chance = Random(runner.line.name)
    fields = checked_fields(runner.line)
    problems = []
    for name in chance.sample(fields, min(5, len(fields))):
        problems += empty_template(runner, name, chance.choice(["", None]))
    return problems


# -- arguments from other tasks -------------------------------------------------------------------


@one_run
def xcom_arguments(plan: Plan) -> None:
    plan.from_xcom = tuple(name for name in plan.arguments if name in plan.line.kind.template_fields)


@several_runs
def mapped(runner: Runner) -> list[str]:
    plan = runner.restored()
    first, second = plan.arguments, runner.line.second(plan.place)
    names = [name for name in second if second[name] != first.get(name)]
    common = {name: value for name, value in first.items() if name not in names}
    with DAG("modes", schedule=None, user_defined_macros={"given": [first, second]}, **plan.dag) as dag:

        @task
        def instances() -> list[dict[str, Any]]:
            return [{name: arguments[name] for name in names} for arguments in (first, second)]

        runner.line.kind.partial(task_id="task", **common).expand_kwargs(instances())
    effects = runner.run(plan, map_index=0, dag=dag)
    if "stale" in runner.plain.result:
        # A mapped task has only a part of its source.
        effects.result["stale"] = runner.plain.result["stale"]
    problems = effects.differences(runner.plain, "result")
    expected = (2 * runner.line.posts, 2 * runner.line.files + runner.line.second_files)
    if (effects.posts, len(effects.files)) != expected:
        problems.append(f"{effects.posts} POST requests and {len(effects.files)} files instead of {expected}")
    return problems


# -- XCom -----------------------------------------------------------------------------------------


@one_run
def without_xcom(plan: Plan) -> None:
    plan.arguments["do_xcom_push"] = False


@one_run
def xcom_in_object_storage(plan: Plan) -> None:
    plan.storage = True


@contextmanager
def _object_storage(folder: Path) -> Iterator[None]:
    """Have Airflow store every XCom in a folder."""
    from airflow.providers.common.io.xcom import backend
    from airflow.sdk.execution_time import task_runner, xcom

    def forget() -> None:
        for remembered in (backend._get_base_path, backend._get_compression, backend._get_threshold):
            remembered.cache_clear()

    forget()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AIRFLOW__COMMON_IO__XCOM_OBJECTSTORAGE_PATH", folder.as_uri())
        patch.setenv("AIRFLOW__COMMON_IO__XCOM_OBJECTSTORAGE_THRESHOLD", "0")
        for module in (xcom, task_runner):
            patch.setattr(module, "XCom", backend.XComObjectStorageBackend)
        yield
    forget()


# -- waiting --------------------------------------------------------------------------------------


def _waits(runner: Runner) -> bool:
    """Return whether the task can wait for the service."""
    return runner.line.is_sensor or "poll_interval" in parameters_of(runner.line.kind)


class Once(dict[str, Any]):
    """The values of templates, which are others when a field is rendered again."""

    def __getitem__(self, name: str) -> Any:
        return self.pop(name, "other")


def _waited(runner: Runner, lost_triggerers: int = 0, *, once: bool = False, **changes: Any) -> Effects:
    """
    Run the task while the service is not ready.

    :param once: Whether its templates have other values when it resumes.
    """
    plan = runner.restored(**changes)
    if once:
        plan.dag["render_template_as_native_obj"] = False
        templates(plan)
        plan.dag["user_defined_macros"]["given"] = Once(plan.dag["user_defined_macros"]["given"])
    runner.world.take_two_looks()
    if runner.line.is_sensor and "request_id" in plan.arguments:
        hook = AssistantHook(CONNECTION, site_id=SITE)
        plan.arguments["request_id"] = hook.submit_chat(session_id="7", message="42").request_id
    return runner.run(plan, lost_triggerers=lost_triggerers)


@several_runs
def waiting(runner: Runner) -> list[str]:
    """On the worker, rescheduled, deferred, and deferred by Airflow's configuration; triggerers die meanwhile."""
    if not _waits(runner):
        return []
    plain = _waited(runner, deferrable=False)
    problems = [f"on the worker: {problem}" for problem in plain.differences(plain)]
    deferred = _waited(runner, lost_triggerers=2, once=True, deferrable=True)
    problems += [f"deferred: {line}" for line in deferred.differences(plain)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AIRFLOW__OPERATORS__DEFAULT_DEFERRABLE", "True")
        by_default = _waited(runner)
        problems += [f"by default: {line}" for line in by_default.differences(plain)]
    deferrals = [effects.run.deferrals for effects in (plain, deferred, by_default)]
    if [bool(count) for count in deferrals] != [False, True, True]:
        problems.append(f"on the worker, deferred and by default: {deferrals} deferrals")
    if runner.line.is_sensor:
        rescheduled = _waited(runner, mode="reschedule", deferrable=False)
        problems += [f"rescheduled: {line}" for line in rescheduled.differences(plain)]
    return problems


@several_runs
def pause_of_a_load(runner: Runner) -> list[str]:
    """The service asks a load for a long pause, which it spends in the triggerer."""
    from airflow.providers.standard.triggers.temporal import DateTimeTrigger

    async def at_once(trigger: Any) -> Any:
        yield TriggerEvent(trigger.moment)

    if "findings_path" not in runner.line.kind.template_fields:
        return []
    plan = runner.restored(deferrable=True)
    runner.world.break_request("retry-after:900", skip=1, method="POST")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DateTimeTrigger, "run", at_once)
        effects = runner.run(plan, lost_triggerers=1)
    problems = effects.differences(runner.plain, "stored")
    if not problems and (effects.result["created"], effects.result["unchanged"]) != (1, 1):
        problems.append(str(effects.result))
    return problems


# -- DAGs -----------------------------------------------------------------------------------------


def parameters_of(kind: type[Any]) -> set[str]:
    return {
        name
        for base in kind.__mro__
        if "__init__" in vars(base)
        for name in inspect.signature(base.__init__).parameters
    }


@one_run
def default_args(plan: Plan) -> None:
    """All arguments are in default_args, with those of all other tasks that this one does not take."""
    known = parameters_of(plan.line.kind)
    others: dict[str, Any] = {"retries": 1, "retry_delay": timedelta(0), "owner": "ada", "depends_on_past": False}
    for line in LINES:
        others |= {name: value for name, value in line.arguments(plan.place).items() if name not in known}
    plan.dag["default_args"] = others
    plan.in_defaults = tuple(name for name in plan.arguments if name != "source")


@one_run
def task_group(plan: Plan) -> None:
    plan.groups = ("7", "inner")


@one_run
def setup(plan: Plan) -> None:
    plan.method = "as_setup"


@one_run
def teardown(plan: Plan) -> None:
    plan.method = "as_teardown"


@one_run
def without_logical_date(plan: Plan) -> None:
    plan.run = {"logical_date": None, "run_after": NOW}


# -- tries and runs -------------------------------------------------------------------------------


@several_runs
def cleared_and_backfilled(runner: Runner) -> list[str]:
    """A cleared run repeats only what it must, and a run for an earlier day leaves the files of the first."""
    plan = runner.restored()
    problems = runner.run(plan).differences(runner.plain)
    again = runner.run(plan, clears=1)
    if again.run.state != "success":
        problems.append(f"cleared: {again.run.errors}")
    if again.posts != runner.line.posts_again:
        problems.append(f"cleared: {again.posts} POST requests, not {runner.line.posts_again}")
    files = runner.world.contents(plan.place.folder)
    plan.arguments = runner.line.arguments(replace(plan.place, part="b"))
    earlier = runner.run(plan, run_id="earlier", logical_date=NOW - timedelta(days=10))
    if earlier.run.state != "success":
        problems.append(f"the earlier day: {earlier.run.errors}")
    posts = runner.line.posts if runner.line.posts_later is None else runner.line.posts_later
    if earlier.posts != posts:
        problems.append(f"the earlier day: {earlier.posts} POST requests, not {posts}")
    after = runner.world.contents(plan.place.folder)
    return problems + [f"{path} has changed" for path, content in files.items() if after.get(path) != content]


@several_runs
def broken_request(runner: Runner) -> list[str]:
    """The second request of the first try fails, or its only one."""
    if not runner.plain.requests:
        return []
    plan = runner.restored(retries=1, retry_delay=timedelta(0))
    runner.world.break_request("status:503", skip=min(1, len(runner.plain.requests) - 1))
    return runner.run(plan).differences(runner.plain, "stored")


@several_runs
def killed_at_the_end(runner: Runner) -> list[str]:
    """The worker dies after the first try has done everything, before Airflow knows."""
    plan = runner.restored(retries=1, retry_delay=timedelta(0))
    kind = runner.line.kind
    execute, tries = kind.execute, []

    def dies_once(operator: Any, context: Any) -> Any:
        result = execute(operator, context)
        tries.append(1)
        if len(tries) == 1:
            raise RuntimeError("the worker died")
        return result

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kind, "execute", dies_once)
        effects = runner.run(plan)
    if effects.run.state != "success":
        return [str(effects.run.errors)]
    # What is not remembered is done again, with other ids.
    problems = [] if runner.line.posts_again else effects.differences(runner.plain, "files")
    if len(effects.files) != runner.line.files:
        problems.append(f"{len(effects.files)} files")
    if effects.posts != runner.line.posts + runner.line.posts_again:
        problems.append(f"{effects.posts} POST requests in two tries")
    return problems
