"""Arguments and input that no command can use are input errors, not bugs."""

from __future__ import annotations

import io

import pytest


@pytest.fixture(autouse=True)
def _connected(connection):
    pass


def test_a_url_that_no_package_reads_is_refused_before_the_first_request(cli, faq, service):
    for argv in (
        ("load", "nosuch://faq.csv"),
        ("load", "gs://bucket/faq.csv"),
        ("load", faq, "--findings", "nosuch://findings.parquet"),
        ("findings", "nosuch://findings.parquet"),
    ):
        ran = cli(*argv)
        assert (ran.code, "://" in ran.err) == (2, True), (argv, ran)
    assert not service.posts()


def test_input_that_is_not_text_is_refused(cli, monkeypatch, service):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"\xff\n"), "utf-8"))
    ran = cli("chat")
    assert ran.code == 2
    assert "standard input is not utf-8 text" in ran.err
    assert not service.posts()


@pytest.mark.parametrize("argv", [("prune", "--older-than"), ("loads", "--limit")])
@pytest.mark.parametrize("number", ["-1", "0", "9" * 12, "9" * 25])
def test_numbers_are_bounded(cli, argv, number):
    ran = cli("ledger", argv[0], f"{argv[1]}={number}")
    assert ran.code == 2
    assert argv[1] in ran.err


def test_an_error_about_a_long_name_is_short_and_keeps_its_beginning_and_its_end(cli):
    ran = cli("read", "limits", "--conn-id", "x" * 10_000)
    assert ran.code == 2
    assert ran.err.startswith("error: there is no connection 'xxx")
    assert ran.err.endswith("select another one with --conn-id.\n")
    assert len(ran.err) < 1_000
