"""The command findings."""

from __future__ import annotations

from airflow_provider_assistant.loading.findings import Finding, FindingsFile


def test_findings_are_shown(cli, tmp_path):
    path = tmp_path / "findings.parquet"
    with FindingsFile(path) as file:
        file.add(Finding("stale", "2", "no longer in the source", document_ids=["doc-2"], group="Refunds"))
        file.add(Finding("superseded", "1", "its content has changed", row=1, document_ids=["doc-1"]))
    ran = cli("findings", path)
    assert ran.lines == [
        ["finding", "row", "key", "reason", "documents", "group"],
        ["stale", "", "2", "no longer in the source", "doc-2", "Refunds"],
        ["superseded", "1", "1", "its content has changed", "doc-1", ""],
    ]
    (only,) = cli("findings", path, "--finding", "superseded", "-o", "json").json
    assert (only["key"], only["document_ids"]) == ("1", ["doc-1"])


def test_another_file_is_refused(cli, tmp_path):
    (tmp_path / "letter.parquet").write_text("Dear aunt")
    for path in (tmp_path / "letter.parquet", tmp_path / "missing.parquet"):
        ran = cli("findings", path)
        assert (ran.code, "is not a findings file" in ran.err) == (2, True)
