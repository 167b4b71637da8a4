"""A full disk when findings are written: the load records all outcomes and reports that the list is lost."""

from __future__ import annotations

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_provider_assistant.exceptions import AssistantError, AssistantIncompleteError
from airflow_provider_assistant.loading.findings import FLUSH, Finding, FindingsFile
from tests.full_disk import FullDisk


@pytest.fixture
def full(tmp_path):
    return FullDisk(tmp_path / "findings.parquet", 0)


@pytest.mark.parametrize("count", [0, 1, FLUSH, 2 * FLUSH + 1])
def test_a_full_disk_is_said_at_the_end_with_path_and_advice(full, count):
    findings = FindingsFile(full)
    for number in range(count):
        findings.add(Finding("rejected", str(number), "bad"))
    lost = rf"{full}.*No space left.*what needs attention \({count:,} rows?\) is lost.*run the task again"
    with pytest.raises(AssistantError, match=lost) as e:
        raise findings.close()
    assert not isinstance(e.value, AirflowFailException)


def test_a_full_disk_does_not_hide_why_the_load_ended(full, caplog):
    def load():
        with FindingsFile(full) as findings:
            findings.add(Finding("failed", "1", "no answer"))
            raise AssistantIncompleteError("1 row failed")

    with pytest.raises(AssistantIncompleteError):
        load()
    assert f"cannot be written to '{full}'" in caplog.text


def test_half_a_list_is_removed(tmp_path):
    path = tmp_path / "findings.parquet"
    findings = FindingsFile(FullDisk(path, 1000))
    for number in range(2 * FLUSH):
        findings.add(Finding("rejected", str(number), "bad"))
    assert path.exists()
    with pytest.raises(AssistantError, match=f"list of what needs attention .{2 * FLUSH:,} rows"):
        raise findings.close()
    assert not path.exists()


def test_an_error_of_any_storage_is_said_at_the_end(tmp_path, full, monkeypatch):
    """The clients of object storages raise errors that are no OSError."""

    def refused(mode):
        raise RuntimeError("AccessDenied")

    monkeypatch.setattr(full, "open", refused)
    findings = FindingsFile(full)
    for number in range(FLUSH + 1):
        findings.add(Finding("rejected", str(number), "bad"))
    with pytest.raises(AssistantError, match=f"AccessDenied.*what needs attention .{FLUSH + 1:,} rows"):
        raise findings.close()
