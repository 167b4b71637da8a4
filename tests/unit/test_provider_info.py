"""What Airflow discovers agrees with Airflow's schema and with what there is."""

from __future__ import annotations

import importlib
import json
import pkgutil
import tomllib
import xml.etree.ElementTree as ET
from importlib.metadata import entry_points
from importlib.resources import files
from pathlib import Path

import jsonschema
import pytest
from airflow.sdk import BaseHook, BaseOperator, BaseSensorOperator
from airflow.triggers.base import BaseTrigger

import airflow_provider_assistant as package
from airflow_provider_assistant.provider_info import get_provider_info
from tests.versions import import_string

ROOT = Path(__file__).parents[2]
KINDS = {"hooks": BaseHook, "operators": BaseOperator, "sensors": BaseSensorOperator, "triggers": BaseTrigger}


@pytest.fixture(scope="module")
def info():
    return get_provider_info()


def schema(name):
    return json.loads((files("airflow") / name).read_text())


def test_airflow_accepts_it(info):
    jsonschema.validate(info, schema("provider_info.schema.json"))


def test_airflow_shows_the_documentation_and_the_logo_of_its_site(info):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (integration,) = info["integrations"]
    assert integration["external-doc-url"] == project["urls"]["Documentation"]
    assert integration["logo"].startswith(integration["external-doc-url"])
    logo = ROOT / "docs" / "site" / "static" / integration["logo"].partition("/_static/")[2]
    assert ET.parse(logo).getroot().tag == "{http://www.w3.org/2000/svg}svg"


def test_the_entry_point_leads_to_it(info):
    (point,) = [
        point for point in entry_points(group="apache_airflow_provider") if point.module.startswith(package.__name__)
    ]
    assert point.load()() == info


@pytest.mark.parametrize("kind", KINDS)
def test_every_module_is_listed_and_there(kind, info):
    (entry,) = info[kind]
    folder = importlib.import_module(f"{package.__name__}.{kind}")
    holding = set()
    for module in pkgutil.iter_modules(folder.__path__):
        loaded = importlib.import_module(f"{folder.__name__}.{module.name}")
        if any(
            isinstance(thing, type) and issubclass(thing, KINDS[kind]) and thing.__module__ == loaded.__name__
            for thing in vars(loaded).values()
        ):
            holding.add(loaded.__name__)
    # These modules have only base classes.
    bases = {
        *("operators.base", "operators.loads", "operators.message", "operators.source"),
        *("sensors.base", "triggers.events"),
    }
    assert set(entry["python-modules"]) == holding - {f"{package.__name__}.{base}" for base in bases}


def test_every_transfer_is_listed_and_there(info):
    folder = importlib.import_module(f"{package.__name__}.transfers")
    modules = {f"{folder.__name__}.{module.name}" for module in pkgutil.iter_modules(folder.__path__)}
    assert {entry["python-module"] for entry in info["transfers"]} == modules - {
        f"{folder.__name__}.{name}" for name in ("base", "replies")
    }
    for entry in info["transfers"]:
        transfers = vars(importlib.import_module(entry["python-module"])).values()
        own = [kind for kind in transfers if getattr(kind, "__module__", "") == entry["python-module"]]
        assert any(isinstance(kind, type) and issubclass(kind, BaseOperator) for kind in own), entry


def test_the_hook_is_where_it_says(info):
    (kind,) = info["connection-types"]
    hook = import_string(kind["hook-class-name"])
    assert (hook.conn_type, hook.hook_name) == (kind["connection-type"], kind["hook-name"])


def test_every_option_of_the_configuration_has_a_text(info):
    for section in info["config"].values():
        for option in section["options"].values():
            assert option["description"]
            assert option["type"]
