"""Processes with log files, and ports for their servers."""

from __future__ import annotations

import socket

import pytest

from tests.live.process import free_port


def test_a_reserved_port_is_for_the_server_that_specifies_it() -> None:
    port = free_port()
    for _ in range(2):  # also for its restart
        socket.create_server(("127.0.0.1", port)).close()
    with socket.socket() as other, pytest.raises(OSError, match="in use"):
        other.bind(("127.0.0.1", port))
