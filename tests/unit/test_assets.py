"""Assets of an assistant: one URI for one thing, whoever writes it down."""

from __future__ import annotations

from typing import get_args

import pytest
from airflow.sdk import Asset

from airflow_provider_assistant import assets
from airflow_provider_assistant.assets import AssetKind, assistant_asset
from airflow_provider_assistant.exceptions import AssistantInputError
from tests.versions import HookLineageCollector, ProvidersManagerTaskRuntime

URI = "assistant://assistant.example.com/help/documents"


def test_airflow_knows_the_scheme() -> None:
    manager = ProvidersManagerTaskRuntime()
    assert manager.asset_uri_handlers["assistant"] is assets.sanitize_uri
    assert manager.asset_factories["assistant"] is assistant_asset
    assert manager.asset_to_openlineage_converters["assistant"] is assets.convert_asset_to_openlineage


@pytest.mark.parametrize(
    "written",
    [
        URI,
        f"{URI}/",
        "assistant://Assistant.Example.COM/help/documents",
        "assistant://assistant.example.com:443/help//documents",
        "ASSISTANT://assistant.example.com/help/documents#top",
    ],
)
def test_one_thing_has_one_uri(written: str) -> None:
    assert Asset(uri=written).uri == URI


@pytest.mark.parametrize(
    "wrong",
    [
        "assistant:///help/documents",
        "assistant://assistant.example.com",
        "assistant://assistant.example.com/",
        "assistant://key@assistant.example.com/help",
        f"{URI}?day=today",
    ],
)
def test_a_uri_that_names_no_part_of_a_site_is_refused(wrong: str) -> None:
    with pytest.raises(ValueError, match="assistant://host/site/kind"):
        Asset(uri=wrong)


@pytest.mark.parametrize("kind", get_args(AssetKind))
def test_the_helper_makes_what_the_uri_says(kind: AssetKind) -> None:
    asset = assistant_asset("Assistant.example.com:443", "help", kind, extra={"owner": "docs"})
    assert asset == Asset(uri=f"assistant://assistant.example.com/help/{kind}", extra={"owner": "docs"})
    assert asset.extra == {"owner": "docs"}


def test_another_port_and_another_case_of_the_site_are_other_things() -> None:
    assert Asset(uri="assistant://localhost:8099/Help/documents").uri == "assistant://localhost:8099/Help/documents"


def test_a_site_may_have_any_name() -> None:
    assert assistant_asset("host", "a/b c").uri == "assistant://host/a%2Fb%20c/documents"


@pytest.mark.parametrize(
    ("field", "arguments"),
    [
        ("host", ("https://assistant.example.com/api/v1", "help")),
        ("host", ("key@assistant.example.com", "help")),
        ("host", ("", "help")),
        ("site", ("assistant.example.com", "")),
        ("kind", ("assistant.example.com", "help", "documnets")),
    ],
)
def test_what_is_no_asset_is_refused(field: str, arguments: tuple[str, ...]) -> None:
    with pytest.raises(AssistantInputError, match=field) as caught:
        assistant_asset(*arguments)  # type: ignore[arg-type]
    assert caught.value.field == field


def test_hooks_that_collect_lineage_can_name_it_by_its_parts() -> None:
    found = HookLineageCollector().create_asset(scheme="assistant", asset_kwargs={"host": "host", "site": "help"})
    assert found == Asset(uri="assistant://host/help/documents")
