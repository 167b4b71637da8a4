"""Real gateways in front of a service: nginx, haproxy and squid, with one port for each fault."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.live.process import WAIT, Process, free_port, running, wait_for
from tests.proxies import LOCAL_NAME, relay

# A firewall refuses requests with this word in the body.
BLOCKED_WORD = "DROP TABLE"
USER, PASSWORD = "corp", "s3cret"

NGINX = """
daemon off; master_process off; worker_processes 1; pid {folder}/nginx.pid; error_log {folder}/error.log;
events {{ worker_connections 512; }}
http {{
  access_log {folder}/access.log;
  client_body_temp_path {folder}/t1; proxy_temp_path {folder}/t2; fastcgi_temp_path {folder}/t3;
  uwsgi_temp_path {folder}/t4; scgi_temp_path {folder}/t5;
  limit_req_zone $server_port zone=all:1m rate=20r/s;
  proxy_set_header Host localhost; proxy_read_timeout 1s; proxy_next_upstream off;
  server {{ listen 127.0.0.1:{open}; location / {{ proxy_pass http://{service}; }} }}
  server {{ listen 127.0.0.1:{limited}; location / {{ limit_req zone=all; proxy_pass http://{service}; }} }}
  server {{ listen 127.0.0.1:{small}; client_max_body_size 2k; location / {{ proxy_pass http://{service}; }} }}
  server {{ listen 127.0.0.1:{down}; location / {{ proxy_pass http://{closed}; }} }}
  server {{ listen 127.0.0.1:{slow}; location / {{ proxy_pass http://{silent}; }} }}
  server {{ listen 127.0.0.1:{basic}; auth_basic "Company"; auth_basic_user_file {folder}/users; location / {{
    proxy_pass http://{service}; }} }}
  server {{ listen 127.0.0.1:{deny}; location / {{ deny all; }} }}
  server {{ listen 127.0.0.1:{login}; location / {{ add_header Content-Type text/html always;
    return 200 "<html><title>Sign in</title></html>"; }} }}
  server {{ listen 127.0.0.1:{elsewhere}; root {folder}; }}
  server {{ listen 127.0.0.1:{misdirected}; location / {{ return 421; }} }}
  server {{ listen 127.0.0.1:{headers}; connection_pool_size 128;
    client_header_buffer_size 64; large_client_header_buffers 1 128; }}
  server {{ listen 127.0.0.1:{mutual} ssl; ssl_certificate {bundle}; ssl_certificate_key {key};
    ssl_client_certificate {bundle}; ssl_verify_client on; location / {{ proxy_pass http://{service}; }} }}
}}
"""
NGINX_PORTS = (
    *("open", "limited", "small", "down", "slow", "basic", "deny", "login", "elsewhere", "misdirected", "headers"),
    "mutual",
)

HAPROXY = """
global
  maxconn 400
defaults
  mode http
  timeout connect 1s
  timeout client 60s
  timeout server 1s
  timeout queue 20ms
  retries 0
frontend open
  bind 127.0.0.1:{open}
  default_backend service
frontend word
  bind 127.0.0.1:{word}
  option http-buffer-request
  http-request deny deny_status 403 if {{ req.body -m sub "{blocked}" }}
  default_backend service
frontend denied
  bind 127.0.0.1:{denied}
  http-request deny deny_status 403
frontend full
  bind 127.0.0.1:{full}
  default_backend one
frontend down
  bind 127.0.0.1:{down}
  default_backend closed
frontend empty
  bind 127.0.0.1:{empty}
  default_backend nobody
frontend slow
  bind 127.0.0.1:{slow}
  default_backend silent
backend service
  http-request set-header Host localhost
  server a {service}
backend one
  http-request set-header Host localhost
  server a {service} maxconn 1
backend closed
  server a {closed}
backend nobody
  server a {closed} disabled
backend silent
  server a {silent}
"""
HAPROXY_PORTS = ("open", "word", "denied", "full", "down", "empty", "slow")

SQUID = """
http_port 127.0.0.1:{open}
http_port 127.0.0.1:{auth}
http_port 127.0.0.1:{denied}
acl on_open localport {open}
acl on_auth localport {auth}
acl CONNECT method CONNECT
auth_param basic program {folder}/check
auth_param basic children 1
acl users proxy_auth REQUIRED
http_access allow on_open
http_access allow on_auth users
http_access deny all
hosts_file {folder}/hosts
cache deny all
pid_filename none
access_log none
cache_log {folder}/cache.log
cache_store_log none
coredump_dir {folder}
shutdown_lifetime 0 seconds
connect_timeout 2 seconds
visible_hostname squid.test
pinger_enable off
"""
SQUID_PORTS = ("open", "auth", "denied")


@contextlib.contextmanager
def nginx(folder: Path, service: str, pair: tuple[Path, Path]) -> Iterator[dict[str, str]]:
    """
    Run nginx; return ``host:port`` by the name of a fault.

    :param service: ``host:port`` of the service.
    :param pair: Certificate and key of the TLS port.
    """
    (folder / "users").write_text(f"{USER}:{{PLAIN}}{PASSWORD}\n")
    with _backends() as (closed, silent):
        ports = _free_ports(NGINX_PORTS)
        text = NGINX.format(
            folder=folder, service=service, closed=closed, silent=silent, bundle=pair[0], key=pair[1], **ports
        )
        config = folder / "nginx.conf"
        config.write_text(text)
        with _running(["nginx", "-p", str(folder), "-c", str(config)], ports, folder):
            yield _hosts(ports)


@contextlib.contextmanager
def haproxy(folder: Path, service: str) -> Iterator[dict[str, str]]:
    """
    Run haproxy; return ``host:port`` by the name of a fault.

    :param service: ``host:port`` of the service.
    """
    with _backends() as (closed, silent):
        ports = _free_ports(HAPROXY_PORTS)
        config = folder / "haproxy.cfg"
        config.write_text(HAPROXY.format(service=service, closed=closed, silent=silent, blocked=BLOCKED_WORD, **ports))
        with _running(["haproxy", "-db", "-f", str(config)], ports, folder):
            yield _hosts(ports)


@contextlib.contextmanager
def squid(folder: Path) -> Iterator[dict[str, str]]:
    """Run squid, which alone knows the name of the service; return ``host:port`` by the name of a fault."""
    ports = _free_ports(SQUID_PORTS)
    check = folder / "check"
    check.write_text(
        f'#!/bin/sh\nwhile read line; do\n[ "$line" = "{USER} {PASSWORD}" ] && echo OK || echo ERR\ndone\n'
    )
    check.chmod(0o755)
    (folder / "hosts").write_text(f"127.0.0.1 {LOCAL_NAME}\n")
    config = folder / "squid.conf"
    config.write_text(SQUID.format(folder=folder, **ports))
    # As root, squid changes to a user of its own, who must reach its folder.
    folder.chmod(0o777)
    for parent in folder.parents:
        if parent.owner() == folder.owner() and parent != Path("/"):
            parent.chmod(parent.stat().st_mode | 0o011)
    with _running(["squid", "-N", "-f", str(config)], ports, folder):
        yield _hosts(ports)


def missing(program: str) -> str | None:
    """Return why a program cannot be run, or None if it can."""
    if shutil.which(program) or Path(f"/usr/sbin/{program}").exists():
        return None
    return f"{program} is not installed: make gateways installs it"


class Relay:
    """
    Pass connections on to a service, except while it is away.

    :param service: ``host:port`` of the service.
    """

    def __init__(self, service: str) -> None:
        host, _, port = service.partition(":")
        self._service = (host, int(port))
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.host = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self.away = threading.Event()
        self._open: list[socket.socket] = []
        self._timers: list[threading.Timer] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def be_away(self, seconds: float, *, after: float = 0.0) -> None:
        """Close all connections, and each new one for some seconds."""
        self._timers = [threading.Timer(after, self._leave), threading.Timer(after + seconds, self.away.clear)]
        for timer in self._timers:
            timer.start()
        if not after:
            self._timers[0].join()

    def be_back(self) -> None:
        """Wait until the service is back."""
        for timer in self._timers:
            timer.join()

    def _leave(self) -> None:
        self.away.set()
        for connection in self._open:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                if self.away.is_set():
                    connection.close()
                else:
                    self._open.append(connection)
                    threading.Thread(target=self._pass_on, args=(connection,), daemon=True).start()

    def _pass_on(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError), connection, socket.create_connection(self._service) as service:
            relay(connection, service)

    def close(self) -> None:
        """Stop listening."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()


@contextlib.contextmanager
def _backends() -> Iterator[tuple[str, str]]:
    """Return an address where nobody listens, and one that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0), backlog=512) as silent:
        yield f"127.0.0.1:{free_port()}", f"127.0.0.1:{silent.getsockname()[1]}"


def _free_ports(names: Sequence[str]) -> dict[str, int]:
    return {name: free_port() for name in names}


def _hosts(ports: dict[str, int]) -> dict[str, str]:
    return {name: f"127.0.0.1:{port}" for name, port in ports.items()}


@contextlib.contextmanager
def _running(command: list[str], ports: dict[str, int], folder: Path) -> Iterator[None]:
    """Run a program until the context is left; wait until it listens."""
    environment = {**os.environ, "PATH": f"{os.environ.get('PATH', '')}:/usr/sbin"}
    process = Process(command[0], command, env=environment, cwd=folder, log=folder / "output", grace=1)

    def listens() -> bool:
        process.check()
        return all(_listens(port) for port in ports.values())

    with running([process]):
        wait_for(f"{command[0]} listens", listens, timeout=WAIT, interval=0.05)
        yield


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
