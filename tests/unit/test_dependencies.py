"""Every third-party import is declared in pyproject.toml, and every declared dependency is imported."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.metadata import distribution, packages_distributions
from pathlib import Path, PurePosixPath

from packaging.utils import canonicalize_name

from tests.lowest import EXTRAS, declared, lower_bound

ROOT = Path(__file__).parents[2]
PACKAGE = "airflow_provider_assistant"
# Which extras a folder may count on, besides the package's own dependencies.
EXTRAS_OF = {
    f"{PACKAGE}/evaluation": {"evaluation", "judge"},
    f"{PACKAGE}/knowledge": {"website"},
    f"{PACKAGE}/lake": {"warehouse"},
    f"{PACKAGE}/parsing": {"files", "website"},
    f"{PACKAGE}/sandbox": {"sandbox"},
    "dags": set(EXTRAS),
}
NOT_DECLARED = {
    "apache-airflow-core": "apache-airflow requires exactly its own version of it",
    "apache-airflow-task-sdk": "apache-airflow-core requires it; apache-airflow is what users pin",
    "apache-airflow-providers-openlineage": "imported only when it has asked an operator for its lineage",
    "wtforms": "Airflow before 3.2 asks the hook for a form; it brings WTForms or a stand-in for it",
}
# Names that common-compat 1.12 has. Airflow's constraints pin old versions, and a name that only newer ones have breaks
# the import there. `make lowest` runs the tests on the lowest version.
COMPAT = "airflow.providers.common.compat"
COMPAT_VERSION = "1.12"
COMPAT_NAMES = {
    "openlineage.facet": {
        "Dataset", "InputDataset", "OutputDataset", "OutputStatisticsOutputDatasetFacet", "SchemaDatasetFacet",
        "SchemaDatasetFacetFields",
    },
    "sdk": {
        "AirflowException", "AirflowFailException", "AirflowNotFoundException", "AirflowSensorTimeout",
        "AirflowSkipException", "Asset", "AssetAlias", "BaseHook", "BaseOperator", "BaseOperatorLink",
        "BaseSensorOperator", "Connection", "Context", "ObjectStoragePath", "PokeReturnValue",
        "Stats", "TaskDeferred", "conf",
    },
}  # fmt: skip
# What `make lowest` does not install: with the lowest versions of the others, it cannot be installed.
NOT_IN_LOWEST = {
    "airflow.providers.common.ai": "apache-airflow-providers-common-ai",
    "pydantic_ai": "pydantic-ai-slim",
}
NOT_IMPORTED = {
    "apache-airflow": "a distribution without modules; it requires apache-airflow-core and apache-airflow-task-sdk",
}


@cache
def imported() -> tuple[tuple[str, str], ...]:
    """Return the modules that are imported, with the file that does it."""
    return tuple(_imported())


def _imported() -> Iterator[tuple[str, str]]:
    for folder in (PACKAGE, "dags"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text())):
                for module in modules_of(node):
                    if module.partition(".")[0] not in {*sys.stdlib_module_names, PACKAGE}:
                        yield module, path.relative_to(ROOT).as_posix()


def modules_of(node: ast.AST) -> list[str]:
    """
    Return what a statement imports, or a call of ``import_module`` or ``require_extra``.

    For ``from a import b`` that is ``a.b``, whether ``b`` is a module or not.
    """
    match node:
        case ast.Import():
            return [alias.name for alias in node.names]
        case ast.ImportFrom(level=0, module=str(module)):
            return [f"{module}.{alias.name}" for alias in node.names]
        case ast.Call(func=ast.Name("require_extra" | "import_module"), args=[ast.Constant(str(module)), *_]):
            return [module]
    return []


@cache
def distribution_of(module: str) -> str:
    """Return the distribution that a module, or a name in it, belongs to: its normalized name."""
    for name, distribution_name in NOT_IN_LOWEST.items():
        if module == name or module.startswith(f"{name}."):
            return distribution_name
    top = module.partition(".")[0]
    candidates = sorted(set(_owners().get(top, ())))
    if len(candidates) > 1:  # a namespace, such as airflow and opentelemetry
        candidates = [name for name in candidates if holds(name, module)]
    return canonicalize_name(candidates[0]) if len(candidates) == 1 else top


def holds(name: str, module: str) -> bool:
    path = PurePosixPath(*module.split("."))
    places = [place for it in (path, path.parent) for place in (it.with_suffix(".py"), it / "__init__.py")]
    return any(place.as_posix() in _files(name) for place in places)


@cache
def _owners() -> Mapping[str, list[str]]:
    return packages_distributions()


@cache
def _files(name: str) -> frozenset[str]:
    # importlib.metadata makes a path of each file, which takes ten times as long.
    lines = (distribution(name).read_text("RECORD") or "").splitlines()
    return frozenset(line.partition(",")[0] for line in lines)


def names(*groups: str) -> set[str]:
    return {canonicalize_name(requirement.name) for group in groups for requirement in declared()[group]}


def test_every_import_is_declared() -> None:
    undeclared = set()
    for module, file in imported():
        extras = {extra for folder, extras in EXTRAS_OF.items() if file.startswith(f"{folder}/") for extra in extras}
        if distribution_of(module) not in names("", *extras) | set(NOT_DECLARED):
            undeclared.add((distribution_of(module), module, file))
    assert not undeclared


def test_every_declared_dependency_is_imported() -> None:
    found = {distribution_of(module) for module, _ in imported()}
    assert names("", *EXTRAS) - found == set(NOT_IMPORTED)
    assert set(NOT_DECLARED) <= found


def test_names_of_common_compat_are_in_its_lowest_version() -> None:
    (declared_compat,) = (one for one in declared()[""] if one.name == "apache-airflow-providers-common-compat")
    assert lower_bound(declared_compat) == COMPAT_VERSION, "check the names, and change COMPAT_VERSION"
    known = {f"{COMPAT}.{module}.{name}" for module, names in COMPAT_NAMES.items() for name in names}
    found = {module for module, _ in imported() if module.startswith(f"{COMPAT}.")}
    assert found <= known


def test_every_dependency_has_a_lower_bound() -> None:
    assert all(lower_bound(requirement) for group in declared().values() for requirement in group)


def test_parquet_files_are_not_read_with_read_table():
    """It imports pandas, and its threads often end a short process such as a command with SIGABRT."""
    assert [path for path in (ROOT / PACKAGE).rglob("*.py") if "pq.read_table(" in path.read_text()] == []
