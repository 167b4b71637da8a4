"""Real gateways in front of a service: nginx, haproxy and squid, with one port for each fault."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

from tests.live.process import WAIT, Process, free_port, running, wait_for
from tests.proxies import LOCAL_NAME, relay

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
  server {{ listen 127.0.0.1:{down}; location / {{ proxy_pass http://{closed}; }} }}
  server {{ listen 127.0.0.1:{slow}; location / {{ proxy_pass http://{silent}; }} }}
  server {{ listen 127.0.0.1:{basic}; auth_basic "Company"; auth_basic_user_file {folder}/users; location / {{
    proxy_pass http://{service}; }} }}
  server {{ listen 127.0.0.1:{deny}; location / {{ deny all; }} }}
  server {{ listen 127.0.0.1:{login}; location / {{ add_header Content-Type text/html always;
    return 200 "<html><title>Sign in</title></html>"; }} }}
  server {{ listen 127.0.0.1:{elsewhere}; root {folder}; }}
  server {{ listen 127.0.0.1:{mutual} ssl; ssl_certificate {bundle}; ssl_certificate_key {key};
    ssl_client_certificate {bundle}; ssl_verify_client on; location / {{ proxy_pass http://{service}; }} }}
}}
"""
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
# The configuration of each, and its command line.
GATEWAYS = {
    "nginx": (NGINX, "nginx -p {folder} -c {config}"),
    "haproxy": (HAPROXY, "haproxy -db -f {config}"),
    "squid": (SQUID, "squid -N -f {config}"),
}


@contextlib.contextmanager
def gateway(name: str, folder: Path, service: str, pair: tuple[Path, Path]) -> Iterator[dict[str, str]]:
    """
    Run nginx, haproxy or squid; return ``host:port`` by the name of a fault.

    :param service: ``host:port`` of the service.
    :param pair: Certificate and key of the TLS port.
    """
    text, command = GATEWAYS[name]
    files = {"folder": folder, "bundle": pair[0], "key": pair[1]}
    ports = {port: free_port() for port in re.findall(r"127\.0\.0\.1:{(\w+)}", text)}
    (folder / "users").write_text(f"{USER}:{{PLAIN}}{PASSWORD}\n")
    (folder / "hosts").write_text(f"127.0.0.1 {LOCAL_NAME}\n")
    check = folder / "check"
    check.write_text(f'#!/bin/sh\nwhile read line; do [ "$line" = "{USER} {PASSWORD}" ] && echo OK || echo ERR; done\n')
    check.chmod(0o755)
    if name == "squid":
        # As root, squid changes to the user proxy, which must be able to read its folder.
        folder.chmod(0o777)
        for parent in folder.parents:
            if parent.owner() == folder.owner() and parent != Path("/"):
                parent.chmod(parent.stat().st_mode | 0o011)
    # Nobody listens at one address; the other accepts connections and never answers.
    with black_holes() as (_, silent):
        addresses = {"closed": f"127.0.0.1:{free_port()}", "silent": silent}
        config = folder / "config"
        config.write_text(text.format(service=service, **addresses, **files, **ports))
        env = {**os.environ, "PATH": f"{os.environ.get('PATH', '')}:/usr/sbin"}
        words = [word.format(folder=folder, config=config) for word in command.split()]
        process = Process(name, words, env=env, cwd=folder, log=folder / "output", grace=1)

        def listens() -> bool:
            process.check()
            with contextlib.suppress(OSError):
                for port in ports.values():
                    socket.create_connection(("127.0.0.1", port)).close()
                return True
            return False

        with running([process]):
            wait_for(f"{name} listens", listens, timeout=WAIT, interval=0.05)
            yield {fault: f"127.0.0.1:{port}" for fault, port in ports.items()}


@contextlib.contextmanager
def black_holes() -> Iterator[tuple[str, str]]:
    """Yield two ``host:port``: one drops every attempt to connect, the other accepts connections and never answers."""
    with (
        socket.create_server(("127.0.0.1", 0), backlog=0) as full,
        socket.create_server(("127.0.0.1", 0), backlog=512) as silent,
        contextlib.ExitStack() as stack,
    ):
        for _ in range(4):
            filler = stack.enter_context(socket.socket())
            filler.setblocking(False)
            filler.connect_ex(full.getsockname())
        yield f"127.0.0.1:{full.getsockname()[1]}", f"127.0.0.1:{silent.getsockname()[1]}"


def missing(name: str) -> str | None:
    """Return why a gateway cannot be run, or None if it can."""
    if shutil.which(name) or Path(f"/usr/sbin/{name}").exists():
        return None
    return f"{name} is not installed: make gateways installs it"


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
