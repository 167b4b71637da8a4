"""
What Airflow's processes import of this package, and with it.

DAG files are parsed every few seconds, and every ``airflow`` command imports the definitions of commands and plugins.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import airflow
import pytest

from airflow_provider_assistant.provider_info import get_provider_info
from tests.imports import public_modules
from tests.versions import needs

DAGS = Path(__file__).parents[2] / "dags"
HEAVY = (
    "aiohttp",
    "duckdb",
    "fastapi",
    "httpx_aiohttp",
    "numpy",
    "pandas",
    "polars",
    "pyarrow",
    "starlette",
    "uvicorn",
)
# Today 164 of the package, 165 with Airflow 3.1, and 10 of Airflow that a DAG file need not import otherwise. What
# they cost in milliseconds is measured by `make bench imports`.
MOST_OF_OURS, MOST_OF_OTHERS = 165 + airflow.__version__.startswith("3.1."), 30
# Importing Airflow takes seconds, so a new process imports it once, and then runs each script in a fork of itself.
RUN = """
import json, os, sys, traceback
import airflow.cli.cli_config, airflow.plugins_manager, airflow.sdk, airflow.triggers.base
folder, scripts = sys.argv[1], json.load(sys.stdin)
scripts["before"] = "import sys; answer = sorted(sys.modules)"
for name, script in scripts.items():
    if os.fork() == 0:
        known = {}
        try:
            exec(script, known)
            answer = {"answer": known["answer"]}
        except BaseException:
            answer = {"error": traceback.format_exc()}
        with open(os.path.join(folder, name), "w") as file:
            json.dump(answer, file)
        os._exit(0)
    os.wait()
"""
MODULES = f"""
import airflow.dag_processing.processor, importlib, sys
before = set(sys.modules)
for name in {public_modules()}:
    importlib.import_module(name)
answer = sorted(set(sys.modules) - before)
"""
EXAMPLE_DAGS = f"""
import runpy, sys
before = set(sys.modules)
for path in {sorted(map(str, DAGS.glob("*.py")))}:
    runpy.run_path(path)
answer = sorted(set(sys.modules) - before)
"""
COMMANDS = """
import sys
before = set(sys.modules)
from airflow_provider_assistant.cli.definition import get_cli_commands
get_cli_commands()
answer = sorted(set(sys.modules) - before)
"""
PLUGIN = """
import sys
from importlib.metadata import entry_points
(found,) = [point for point in entry_points(group="airflow.plugins") if point.name == "assistant"]
before = set(sys.modules)
plugin = found.load()
(app,) = plugin.fastapi_apps
answer = [app["url_prefix"], sorted(set(sys.modules) - before)]
"""
FORM = """
import sys
from airflow.providers_manager import ProvidersManager
manager = ProvidersManager()
assert "airflow-provider-assistant" in manager.providers, sorted(manager.providers)
from airflow.api_fastapi.core_api.services.ui.connections import HookMetaService
meta = {hook.connection_type: hook for hook in HookMetaService.hook_meta_data()}["assistant"]
answer = {
    "fields": {name: [field["schema"]["title"], field["description"]] for name, field in meta.extra_fields.items()},
    "host": meta.standard_fields.host.title,
    "password": meta.standard_fields.password.title,
    "port is hidden": meta.standard_fields.port.hidden,
    "modules": sorted(sys.modules),
}
"""
# What a DAG file with a load imports: about 50 ms above Airflow's SDK, most of it for the classes of these modules.
OPERATOR = """
import sys
before = set(sys.modules)
import airflow_provider_assistant.operators.documents
answer = sorted(set(sys.modules) - before)
"""
MOST_OF_A_LOAD = 90
SCRIPTS = {
    "operator": OPERATOR,
    "modules": MODULES,
    "dags": EXAMPLE_DAGS,
    "commands": COMMANDS,
    "plugin": PLUGIN,
    "form": FORM,
}


@pytest.fixture(scope="module")
def answer(tmp_path_factory):
    """Return the answer of a script, which ran in a process that had only imported Airflow."""
    folder = tmp_path_factory.mktemp("answers")
    subprocess.run([sys.executable, "-c", RUN, str(folder)], input=json.dumps(SCRIPTS), text=True, check=True)

    def answer(name):
        found = json.loads((folder / name).read_text())
        assert "error" not in found, found["error"]
        return found["answer"]

    return answer


def libraries(modules):
    return {name.partition(".")[0] for name in modules}


def of_this_package(modules):
    return {name for name in modules if name.startswith("airflow_provider_assistant")}


def test_airflow_alone_has_nothing_of_this_package_but_its_description_and_no_heavy_library(answer):
    """Otherwise, the other tests could not see who imports it."""
    before = answer("before")
    names = ("", ".provider_info", ".hooks", ".hooks.extra")
    assert of_this_package(before) <= {f"airflow_provider_assistant{name}" for name in names}
    assert not libraries(before) & set(HEAVY)


def test_few_modules_are_imported(answer):
    added = set(answer("modules"))
    ours = of_this_package(added)
    assert set(public_modules()) <= ours
    assert len(ours) <= MOST_OF_OURS
    assert len(added - ours) <= MOST_OF_OTHERS, sorted(added - ours)


def test_an_operator_imports_no_client(answer):
    ours = of_this_package(answer("operator"))
    assert len(ours) <= MOST_OF_A_LOAD
    clients = {name for name in ours if name.startswith("airflow_provider_assistant.client.")}
    assert clients == {"airflow_provider_assistant.client.cancellation"}


@pytest.mark.promise("Airflow", "Parsing a DAG file imports no heavy library.")
@pytest.mark.parametrize("library", HEAVY)
def test_nothing_heavy_is_imported(answer, library):
    assert library not in libraries(answer("modules"))


def test_the_example_dags_import_nothing_heavy(answer):
    added = libraries(answer("dags"))
    assert "airflow_provider_assistant" in added
    assert not added & set(HEAVY)


def test_the_definition_of_the_commands_imports_nothing_but_itself_and_the_options_of_a_load(answer):
    added = {name for name in answer("commands") if not name.startswith("airflow.")}
    assert added - {"airflow_provider_assistant"} == {
        "airflow_provider_assistant.cli",
        "airflow_provider_assistant.cli.definition",
        "airflow_provider_assistant.loading",
        "airflow_provider_assistant.loading.options",
    }


def test_airflow_finds_the_plugin_and_imports_nothing_for_it(answer):
    prefix, added = answer("plugin")
    assert prefix == "/assistant"
    assert not libraries(added) & {"sqlalchemy", *HEAVY}
    pages = {name for name in added if name.startswith("airflow_provider_assistant.ui.")}
    assert pages == {"airflow_provider_assistant.ui.plugin"}


def test_airflow_shows_the_form_of_the_connection(answer):
    form = answer("form")
    (kind,) = get_provider_info()["connection-types"]
    declared = {name: [field["label"], field["description"]] for name, field in kind["conn-fields"].items()}
    assert form["fields"] == declared
    assert (form["host"], form["password"], form["port is hidden"]) == ("Base URL", "API key", True)


@needs("connection form without the hook")
def test_airflow_does_not_import_the_hook_for_the_form(answer):
    modules = answer("form")["modules"]
    assert "airflow_provider_assistant.hooks.assistant" not in modules
