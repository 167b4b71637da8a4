"""Fixtures for tests of the client."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.proxies import certificate

VARIABLES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR")


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove proxies and certificates from the environment."""
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


@pytest.fixture(scope="package")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Certificate and key of a service that only this certificate verifies."""
    return certificate(tmp_path_factory.mktemp("tls"))
