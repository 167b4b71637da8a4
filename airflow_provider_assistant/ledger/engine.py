"""SQL databases of Airflow connections: an engine with all settings of the connection, and what errors mean."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from airflow.providers.common.compat.sdk import AirflowNotFoundException, BaseHook

# Drivers that pass their arguments to libpq, the client library of PostgreSQL.
LIBPQ_DRIVERS = {"psycopg", "psycopg2"}
# Settings that would change how this package and SQLAlchemy use the driver.
_DRIVER_SETTINGS = {"autocommit", "connection_factory", "context", "cursor_factory", "dsn", "row_factory"}
ENCODINGS = {"UTF8", "UNICODE"}


@dataclass(frozen=True, slots=True)
class Cause:
    """
    An error after which another attempt cannot succeed.

    :param pattern: Regular expression that finds it in the SQLSTATE and the driver's text, in lower case. A connection
        that fails has no SQLSTATE.
    :param todo: What to do, in sentences.
    """

    pattern: str
    todo: str


# The first one counts.
_CAUSES = (
    Cause(
        "statement pooling",
        "Set pool_mode = transaction or session for this database in PgBouncer, which pools statements, or "
        "connect to PostgreSQL itself.",
    ),
    Cause(
        "unsupported startup parameter",
        "PgBouncer does not pass this setting on: remove it from the extra of the connection, and set it for the "
        "role instead: ALTER ROLE … SET ….",
    ),
    Cause(
        "prepared statement .* (does not exist|already exists)",
        "Remove prepare_threshold from the extra of the connection: the pooler does not keep prepared statements.",
    ),
    Cause(
        "unrecognized configuration parameter|invalid (uri query parameter|connection option|port number)|bad value for"
        "|invalid value for parameter|invalid .* value:|invalid .*value .* for connection option",
        "Correct or remove this setting in the connection: libpq, the client library of PostgreSQL, does not "
        "accept it.",
    ),
    Cause(
        "private key file|sslkey|could not (read|load) certificate|requires a valid client certificate"
        "|certificate authentication failed",
        "Correct sslcert and sslkey, the client certificate, in the extra of the connection. Only its owner may "
        "read the file of sslkey.",
    ),
    Cause(
        "certificate|does not match host name|weak sslmode",
        "Set sslrootcert in the extra of the connection to the file of the CA that signed the server's "
        "certificate, on every worker, and host to a name in the certificate.",
    ),
    Cause(
        "does not support ssl|ssl is not (enabled|supported)",
        "Enable SSL on the server or the pooler, or change sslmode in the extra of the connection.",
    ),
    Cause(
        "no encryption|ssl off|ssl required|no pg_hba.conf entry",
        "Set sslmode=require in the extra of the connection, if the server requires it, or allow this worker in "
        "the server's pg_hba.conf.",
    ),
    Cause(
        "^28|authentication failed|no password supplied|role .* does not exist|no such user|not permitted to log in",
        "Correct login and password of the connection.",
    ),
    Cause(
        "^3d|database .* does not exist|no such database",
        "Create the database, or correct its name, which is the schema of the Airflow connection.",
    ),
    Cause(
        "^25006|read-only (transaction|mode)|during recovery",
        "The database is read-only, as a standby is: give the host of the primary. With several hosts, set "
        "target_session_attrs=read-write in the extra of the connection.",
    ),
    Cause(
        "^42501|permission denied|must be owner of|not authorized",
        "Let an administrator grant the rights. The tables of a ledger are created by the first command that "
        "opens it, such as 'airflow assistant ledger list' with a connection that may create tables.",
    ),
    Cause(
        "^42p01|^42703|^42804|^22p02|^22007|no such (table|column)|has no column named|isoformat|couldn't parse",
        "Its tables were changed by hand, or are those of another application: undo the change, restore a "
        "backup, or use another database.",
    ),
    Cause(
        "not a database|unsupported file format|malformed|could not decode to utf-8",
        "It is damaged, or not a SQLite database: correct the path, or restore a backup. 'sqlite3 FILE .recover' "
        "saves what can still be read.",
    ),
    Cause(
        "unable to open database file",
        "The path is a folder, its folder does not exist, or this user may not use it: correct the path or its "
        "permissions.",
    ),
    Cause(
        "readonly database",
        "Correct the permissions of the file and its folder.",
    ),
)


class UnusableDatabaseError(sa.exc.SQLAlchemyError):
    """
    A database or its connection that cannot be used, whatever the number of attempts.

    :param reason: Why, without a full stop at the end.
    :param todo: What to do, in sentences.
    """

    def __init__(self, reason: str, todo: str) -> None:
        super().__init__(reason)
        self.reason = reason
        self.todo = todo


def engine_of_connection(conn_id: str) -> sa.Engine:
    """
    Return an engine, not connected yet, for the database of an Airflow connection.

    Airflow's hook for PostgreSQL gives an engine only ``sqlalchemy_query`` of the extra. This function adds the other
    settings, such as ``sslmode`` and ``options``, as the hook itself does when it connects.

    :raises UnusableDatabaseError: The connection does not exist, or is not one to a SQL database.
    """
    try:
        hook = BaseHook.get_hook(conn_id)
        engine: sa.Engine = hook.get_sqlalchemy_engine()
    except AirflowNotFoundException as error:
        raise UnusableDatabaseError(
            "it does not exist, or its value cannot be read, for example because its port is not a number",
            "Create or correct the connection.",
        ) from error
    # Providers raise any exception. Its text may contain parts of the connection.
    except Exception as error:
        raise UnusableDatabaseError(
            f"it cannot be used for SQL ({type(error).__name__})", "Correct the connection or install its provider."
        ) from error
    if engine.dialect.name == "postgresql":
        extra = BaseHook.get_connection(conn_id).extra_dejson
        if extra.get("iam") and not engine.url.password:
            raise UnusableDatabaseError(
                "this version of apache-airflow-providers-postgres does not support iam with SQLAlchemy",
                "Upgrade it to 7.0 or later.",
            )
        # These are for the hook itself. It has applied them to the URL of the engine.
        of_hook: set[str] = getattr(hook, "ignored_extra_options", set())
        _add_settings(engine, {name: value for name, value in extra.items() if name not in of_hook})
    return engine


def _add_settings(engine: sa.Engine, settings: Mapping[str, Any]) -> None:
    """
    Let an engine for PostgreSQL connect with these settings of libpq, and check the encoding of the database.

    :raises UnusableDatabaseError: A setting or the driver cannot be used.
    """
    if engine.driver not in LIBPQ_DRIVERS:
        raise UnusableDatabaseError(
            f"its driver is {engine.driver}", "Remove sqlalchemy_scheme from its extra, and install psycopg."
        )
    refused = sorted(settings.keys() & _DRIVER_SETTINGS)
    if str(settings.get("client_encoding", "utf8")).upper().replace("-", "") not in ENCODINGS:
        refused.append("client_encoding")
    if refused:
        names = ", ".join(map(repr, refused))
        raise UnusableDatabaseError(
            f"its extra has settings that are not supported: {names}", "Remove them from the extra of the connection."
        )

    @sa.event.listens_for(engine, "do_connect")
    def _add(dialect: sa.Dialect, _record: Any, _arguments: Any, parameters: dict[str, Any]) -> None:
        parameters.update(settings)
        # Without this, PGCLIENTENCODING or the role may select an encoding that cannot represent every text.
        parameters["client_encoding"] = "utf8"
        if dialect.driver == "psycopg":
            # A pooler may give the next transaction another session, which has not prepared the statement.
            parameters.setdefault("prepare_threshold", None)

    @sa.event.listens_for(engine, "connect")
    def _check(connection: Any, _record: Any) -> None:
        encoding = connection.info.parameter_status("server_encoding")
        if encoding and encoding.upper() not in ENCODINGS:
            connection.close()
            raise UnusableDatabaseError(
                f"the encoding of the database is {encoding}, which cannot store every text",
                "Use a database with the encoding UTF8: CREATE DATABASE … ENCODING 'UTF8' TEMPLATE template0.",
            )


def driver_text(error: BaseException) -> str:
    """Return the text of the driver's error in one line, without the statement and the part that PostgreSQL quotes."""
    text = str(getattr(error, "orig", None) or error)
    text = re.sub(r"\nLINE \d+: .*\n *\^", "", text)
    return " ".join(text.split())


def sqlstate_of(error: BaseException) -> str:
    """Return the SQLSTATE of an error of PostgreSQL; empty if it has none."""
    driver_error = getattr(error, "orig", error)
    return getattr(driver_error, "sqlstate", None) or getattr(driver_error, "pgcode", None) or ""


def todo_of(error: BaseException) -> str | None:
    """Return what to do about an error of a database, in sentences; None if another attempt may succeed."""
    if isinstance(error, UnusableDatabaseError):
        return error.todo
    text = f"{sqlstate_of(error)} {driver_text(error)}".lower()
    return next((cause.todo for cause in _CAUSES if re.search(cause.pattern, text)), None)
