"""
Definitions of the commands, in the form that Airflow expects from a provider.

Every command of Airflow reads this module: it imports as little as possible.
"""

from __future__ import annotations

from typing import Any

from airflow.cli.cli_config import ARG_OUTPUT, ARG_VERBOSE, ActionCommand, Arg, GroupCommand, lazy_load_command

from airflow_provider_assistant.loading.options import DEFAULTS, OPTIONS, Option

EPILOG = (
    "Exit codes: 0 success; 1 the command found something that a person should look at; 2 it could not run, and its "
    "last line says why; 130 it was interrupted."
)
# Words of the ledger, which is not imported here.
STATES = ("created", "unresolved", "doubled", "superseded", "stale", "draft", "rejected", "failed", "open")
KINDS = ("file", "text", "qa", "chat", "rating")
SETTLED = ("created", "not-created", "removed")
COMMON = (ARG_OUTPUT, ARG_VERBOSE)


def _option(flags: str, metavar: str, text: str, **more: Any) -> Arg:
    return Arg(tuple(flags.split()), metavar=metavar, help=text, **more)


def _choice(flag: str, choices: tuple[str, ...], text: str, **more: Any) -> Arg:
    return Arg((flag,), choices=choices, help=text, **more)


def _repeatable(flag: str, metavar: str, text: str) -> Arg:
    return Arg((flag,), metavar=metavar, action="append", help=f"{text}; repeatable")


def _switch(flag: str, text: str) -> Arg:
    return Arg((flag,), action="store_true", help=text)


def _load_option(name: str, option: Option) -> Arg:
    flag, default = f"--{name.replace('_', '-')}", getattr(DEFAULTS, name)
    if option.choices:
        return _choice(flag, option.choices, option.help, default=default)
    if default is False:
        return _switch(flag, option.help)
    return _option(flag, "N", option.help, type=float, default=default)


def _command(name: str, function: str, text: str, *args: Arg) -> ActionCommand:
    """
    Define a command.

    :param function: Its module and function.
    """
    return ActionCommand(
        name=name,
        help=text,
        func=lazy_load_command(f"airflow_provider_assistant.cli.{function}"),
        args=(*args, *COMMON),
        epilog=EPILOG,
    )


def _group(name: str, text: str, *commands: ActionCommand) -> GroupCommand:
    return GroupCommand(name=name, help=text, epilog=EPILOG, subcommands=commands)


# One argument a line.
# fmt: off
CONNECTION = _option("-c --conn-id", "CONN_ID", "Airflow connection of type assistant", default="assistant_default")
SITE = _option("--site", "SITE_ID", "site (default: that of the connection)")
TENANT = _option("--tenant", "TENANT_ID", "tenant (default: that of the connection)")
DRY_RUN = _switch("--dry-run", "change nothing; show the counts")
# Arguments that select entries of the ledger.
ONLY_SITE = _option("--site", "SITE_ID", "only this site (default: all sites)")
ONLY_SOURCE = _option("--source", "NAME", "only this source (default: all sources)")
ENTRIES = (
    _choice("--state", STATES, "only entries of this list"),
    _choice("--kind", KINDS, "only this kind (default: all kinds)"),
    ONLY_SITE,
    ONLY_SOURCE,
    _option("--key", "TEXT", "only entries whose key contains this text (default: all)"),
)
# Arguments that determine the keys and contents of the rows of a file. They must match those of the operator, or the
# ledger does not recognise the rows.
COLUMN = _repeatable("--column", "FIELD=COLUMN", "take a field from a column of another name")
FORMAT = (
    _repeatable("--csv-option", "NAME=VALUE", "format of CSV, such as delimiter=;, see csv_options of the operators"),
    _option("--encoding", "NAME", "encoding of a CSV or JSON file, such as cp1252 (default: utf-8)"),
)
ROWS = (
    SITE,
    _option("--source-name", "NAME", "name of the source in the ledger, dag_id.task_id for a task (default: the path)"),
    _option("--namespace", "NAME", "separate the keys of this load from those of other loads"),
    _repeatable("--group", "COLUMN", "column with the page, file or ticket of a row (default: no groups)"),
    _choice("--kind", ("qa", "text"), "kind of document to create per row", default="qa"),
    COLUMN,
    _repeatable("--constant", "FIELD=VALUE", "set a field to one value for all rows"),
    _repeatable("--key", "COLUMN", "column that identifies a row (default: the whole row)"),
    *FORMAT,
    _switch("--allow-empty", "succeed if the file has no rows"),
)
# How the commands read a golden set.
GOLDEN = (
    _option("--gate", "FILE", "YAML file with scorers, judge, pass_if, gate and refusal_phrases, as in the operator"),
    COLUMN,
    _repeatable("--key", "COLUMN", "column that identifies a question (default: key, or else the message)"),
    *FORMAT,
)

COMMANDS = (
    _command("smoke", "smoke.smoke", "Run the smoke test: try each route that a production setup needs",
        CONNECTION, SITE, TENANT,
        _option("--document", "FILE", "file to upload (default: a small built-in file)"),
        _option("--question", "TEXT", "question to ask (default: one about the built-in file)"),
        _option("--timeout", "SECONDS", "longest wait for the async answer, in seconds", type=float, default=120.0),
    ),
    _group("documents", "List the documents of a site, and compare them with the ledger",
        _command("list", "documents.list_documents", "List the documents of a site, with their states",
            CONNECTION, SITE),
        _command("check", "documents.check", "Read the list of documents, and show what is understood of it",
            CONNECTION, SITE),
        _command("reconcile", "documents.reconcile_documents", "Compare the ledger with a site, and correct it",
            _option("file", "FILE", "the complete source, as load reads it, to restore a lost ledger", nargs="?"),
            _switch("--apply", "record what was found (default: only show it)"),
            CONNECTION,
            *ROWS,
        ),
    ),
    _command("read", "read.read", "Show the reply of a route, such as the usage or the sessions",
        _option("what", "NAME|PATH", "limits, statistics, or a path such as /m2m/tenants/acme-inc/usage"),
        CONNECTION, SITE, TENANT,
        _repeatable("--param", "NAME=VALUE", "parameter of the query"),
    ),
    _command("chat", "chat.chat", "Chat with the assistant in one session",
        CONNECTION, SITE,
        _option("-m --message", "TEXT", "send one message and exit (default: each input line is a message)"),
        _option("--session", "SESSION_ID", "continue a session (default: a new session)"),
        _option("--email", "ADDRESS", "e-mail address of the end user"),
        _option("--language", "CODE", "language code of the replies, such as en"),
    ),
    _command("load", "load.load", "Load a file of rows, each row once",
        _option("file", "FILE", "path, glob, folder or object storage URL of Parquet, CSV or JSON"),
        CONNECTION,
        *ROWS,
        _switch("--dry-run", "send no row; show what would be sent"),
        *(_load_option(name, option) for name, option in OPTIONS.items()),
        _option("--findings", "FILE", "Parquet file for the findings (default: in [assistant] findings_folder)"),
    ),
    _command("findings", "findings.findings", "Show the findings of a load: the rows that a person should look at",
        _option("file", "FILE", "findings file: a local path or an object storage URL"),
        _repeatable("--finding", "KIND", "only this kind of finding, such as superseded"),
    ),
    _command("evaluate", "evaluate.evaluate", "Ask a golden set, score the answers and check a gate",
        _option("file", "FILE", "the golden set: Parquet, CSV or JSON; optional with --answers", nargs="?"),
        CONNECTION, SITE,
        _option("--against", "PATH", "compare with an earlier evaluation: its folder or scores.parquet"),
        _option("--answers", "FILE", "score these saved answers, and ask nothing"),
        _option("--repeat", "N", "number of times to ask each question", type=int, default=1),
        _option("--session", "COLUMN", "column with the conversation of each question; only with --turn"),
        _option("--turn", "COLUMN", "column with the number of each question within its conversation"),
        _option("--junit", "FILE", "write the verdict as JUnit XML"),
        _option("--report", "FILE", "write the report as HTML"),
        _option("--save", "FOLDER", "write answers, scores, report and summary, for a later --against"),
        _choice("--mode", ("async", "sync"), "submit all questions and poll, or wait for each", default="async"),
        _option("--timeout", "SECONDS", "longest wait for answers once all are asked", type=float, default=3600.0),
        _option("--poll-interval", "SECONDS", "longest time between two polls of a request", type=float, default=5.0),
        *GOLDEN,
    ),
    _group("golden-set", "Check golden sets",
        _command("check", "golden_set.check", "List contradictions and what is missing",
            _option("file", "FILE", "the golden set: Parquet, CSV or JSON"),
            *GOLDEN,
        ),
    ),
    _group("knowledge", "Look at the documents that a folder or a website becomes",
        _command("preview", "knowledge.preview", "Show chunks, and what was left out and why",
            _option("source", "PATH|URL", "file, folder or glob; or the address of a website"),
            _option("--size", "N", "maximum characters of a chunk", type=int, default=2000),
            _option("--base-url", "URL", "address of the folder on the web"),
            _repeatable("--select", "CSS", "content of HTML"),
            _repeatable("--remove", "CSS", "parts of HTML that are not content, besides the default"),
            _option("--max-documents", "N", "files or pages to read (default: 100 pages, all files)", type=int),
            _option("--requests-per-second", "N", "requests to a website per second at most", type=float, default=1.0),
            _switch("--private-networks", "allow private, loopback and link-local IP addresses of a website"),
            _switch("--strict", "fail if something is left out that could hide lost content"),
        ),
    ),
    _group("ledger", "Inspect and correct the ledger, the record of what was sent",
        _command("list", "ledger.list_entries", "List the entries of a state, or count those of all",
            *ENTRIES,
        ),
        _command("resolve", "ledger.resolve", "Record what became of entries: of one with an id, or of all that match",
            _choice("--as", SETTLED, "what you found on the site, or removed from it", dest="outcome", required=True),
            _option("--id", "ID", "id of the document, or of the request that was found"),
            *ENTRIES,
            _option("--confirm", "TEXT", "settle without asking what the same command has shown with this text"),
        ),
        _command("rename", "ledger.rename", "Give a service another name, such as that of its new address",
            _option("old", "OLD", "name of the service in the ledger, see ledger list"),
            _option("new", "NEW", "its new name, which the connection has"),
            DRY_RUN,
            ONLY_SITE,
        ),
        _command("loads", "ledger.loads", "List the latest loads with their counts, and where their findings are",
            ONLY_SITE,
            ONLY_SOURCE,
            _option("--limit", "N", "maximum number of loads", type=int, default=20),
        ),
        _command("prune", "ledger.prune", "Delete old entries that are no longer needed, and old findings files",
            _option("--older-than", "DAYS", "age of what is deleted, in days", type=int, required=True),
            DRY_RUN,
        ),
    ),
    _command("erase", "erase.erase_person", "Erase the rows of a person, and the evaluations of their answers",
        _repeatable("--session", "SESSION_ID", "session of the person"),
        _repeatable("--email", "ADDRESS", "e-mail address of the person"),
        _option("--lake", "PATH", "folder of the datasets (default: [assistant] lake_path)"),
        _repeatable("--path", "PATH", "further folder or file: answers of chat batches, evaluations, findings"),
        _option("--warehouse-conn-id", "CONN_ID", "PostgreSQL connection of the warehouse"),
        _option("--schema", "NAME", "schema of the warehouse", default="assistant"),
        DRY_RUN,
        _switch("--yes", "do not ask before erasing"),
    ),
    _command("sandbox", "sandbox.sandbox", "Run the embedded service, for development and tests",
        _option("--port", "PORT", "port to listen on; 0 lets the system choose one", type=int),
        _option("flags", "-- FLAG", "more flags of the embedded service, after --", nargs="*"),
    ),
)

# fmt: on


def get_cli_commands() -> list[GroupCommand]:
    """Return ``airflow assistant``."""
    return [
        GroupCommand(
            name="assistant",
            help="Check, load and chat with a hosted assistant",
            description="Check a connection, chat, load documents, inspect the ledger.",
            epilog=EPILOG,
            subcommands=COMMANDS,
        )
    ]
