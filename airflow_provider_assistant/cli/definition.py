"""The commands and their arguments, as Airflow's command line takes them from a provider."""

from __future__ import annotations

from airflow.cli.cli_config import ActionCommand, Arg, GroupCommand, lazy_load_command

EPILOG = (
    "Exit codes: 0 all is well; 1 it ran, and something is wrong (a smoke step, rows of a load, a ledger entry); "
    "2 wrong arguments, input or connection; 3 the service refuses (400, 401, 403, 404); 4 the service fails, is busy "
    "or cannot be reached: try again later; 5 the ledger cannot be used; 70 a bug; 130 interrupted."
)

OUTPUT = Arg(("-o", "--output"), choices=("text", "json"), default="text", help="text for people, or JSON for programs")
VERBOSE = Arg(("-v", "--verbose"), action="store_true", help="log what happens to standard error")
CONNECTION = Arg(("-c", "--conn-id"), default="assistant_default", metavar="CONN_ID", help="the Airflow connection")
SITE = Arg(("--site",), metavar="SITE_ID", help="site to use instead of the connection's")
ONLY_SITE = Arg(("--site",), metavar="SITE_ID", help="only of this site")
TENANT = Arg(("--tenant",), metavar="TENANT_ID", help="tenant to use instead of the connection's")
COMMON = (OUTPUT, VERBOSE)

# What says which rows a file has: the same as for the operator, or the ledger does not know them again.
KIND = Arg(("--kind",), choices=("qa", "text"), default="qa", help="what a row becomes: question and answer, or text")
COLUMN = Arg(
    ("--column",), action="append", metavar="FIELD=COLUMN", help="where a column's name differs; may be repeated"
)
CONSTANT = Arg(
    ("--constant",), action="append", metavar="FIELD=VALUE", help="a field with one value for all rows; repeatable"
)
KEY = Arg(("--key",), action="append", metavar="COLUMN", help="column that tells rows apart; may be repeated")
SOURCE_NAME = Arg(
    ("--source-name",),
    metavar="NAME",
    help="names the source in the ledger; dag_id.task_id takes up a DAG's (default: the file's name)",
)
DELETED = Arg(
    ("--findings",),
    metavar="FILE",
    help="findings file of a load: the documents that it lists as stale or superseded",
)
DELIMITER = Arg(
    ("--delimiter",), metavar="CHARACTER", help="between the cells of a CSV file; \\t is a tab (default: ,)"
)
ENCODING = Arg(("--encoding",), metavar="NAME", help="of a CSV file, such as cp1252 (default: utf-8)")
QUOTE = Arg(
    ("--quote",), metavar="CHARACTER", help='around cells of a CSV file that contain the delimiter (default: ")'
)
ALLOW_EMPTY = Arg(("--allow-empty",), action="store_true", help="a file without rows is a success")
IN_FILE = (KIND, COLUMN, CONSTANT, KEY, DELIMITER, ENCODING, QUOTE, ALLOW_EMPTY)
NAMESPACE = Arg(("--namespace",), metavar="NAME", help="keeps keys apart from those of other loads")
ROWS = (SITE, SOURCE_NAME, NAMESPACE, *IN_FILE)


def get_cli_commands() -> list[GroupCommand]:
    """Return ``airflow assistant``."""
    return [
        GroupCommand(
            name="assistant",
            help="Talk to a hosted assistant",
            description="Check a connection, chat, load documents, look into the ledger.",
            epilog=EPILOG,
            subcommands=COMMANDS,
        )
    ]


def _command(name: str, text: str, *args: Arg, function: str | None = None) -> ActionCommand:
    module = function or f"{name}.{name}"
    return ActionCommand(
        name=name,
        help=text,
        func=lazy_load_command(f"airflow_provider_assistant.cli.{module}"),
        args=(*args, *COMMON),
        epilog=EPILOG,
    )


COMMANDS = (
    _command(
        "smoke",
        "Try every part of the service that a production setup needs",
        CONNECTION,
        SITE,
        TENANT,
        Arg(("--document",), metavar="FILE", help="upload this file instead of a small one that comes along"),
        Arg(("--question",), metavar="TEXT", help="ask this instead of a question about that file"),
        Arg(("--timeout",), type=float, default=120.0, metavar="SECONDS", help="longest wait for the async answer"),
    ),
    _command("limits", "Show the tenant's limits", CONNECTION, TENANT),
    _command(
        "chat",
        "Chat with the assistant, in one session",
        CONNECTION,
        SITE,
        Arg(("-m", "--message"), metavar="TEXT", help="ask this, and end; otherwise a line is a message"),
        Arg(("--session",), metavar="SESSION_ID", help="go on with a session (default: a new one)"),
        Arg(("--email",), metavar="ADDRESS", help="e-mail address of the end user"),
        Arg(("--language",), metavar="CODE", help="language of the replies, such as en"),
    ),
    _command(
        "load",
        "Load a file of rows, each row once",
        Arg(("file",), metavar="FILE", help="path, glob, folder or object storage URL of Parquet, CSV or JSON lines"),
        CONNECTION,
        *ROWS,
        Arg(("--dry-run",), action="store_true", help="send nothing, and say what would be sent"),
        Arg(
            ("--on-ambiguous",),
            choices=("retry", "skip", "fail"),
            default="retry",
            help="what to do with a row that an earlier attempt may have created",
        ),
        Arg(
            ("--on-change",),
            choices=("create", "skip", "fail"),
            default="create",
            help="what to do with a key whose content has changed",
        ),
        Arg(
            ("--on-missing",),
            choices=("stale", "ignore"),
            default="stale",
            help="what to do with documents of this source that the file no longer has",
        ),
        Arg(("--adopt",), action="store_true", help="take over keys that belong to another source"),
        Arg(
            ("--allow-mass-change",),
            action="store_true",
            help="replace, or mark as stale, even more than half of the source's documents",
        ),
        Arg(("--max-rejected",), type=float, default=0.0, metavar="N", help="bad rows allowed: a count, or a fraction"),
        Arg(("--findings",), metavar="FILE", help="Parquet file that lists the rows that want attention"),
    ),
    _command(
        "findings",
        "Show a findings file: the rows of a load that want attention",
        Arg(("file",), metavar="FILE", help="Parquet file of a load: a local path or an object storage URL"),
        Arg(
            ("--finding",), action="append", metavar="KIND", help="only this kind, such as superseded; may be repeated"
        ),
    ),
    GroupCommand(
        name="ledger",
        help="Look into the record of what was sent",
        epilog=EPILOG,
        subcommands=(
            _command("status", "Count what the ledger knows", ONLY_SITE, function="ledger.status"),
            _command("ambiguous", "List what may or may not have happened", ONLY_SITE, function="ledger.ambiguous"),
            _command(
                "stale",
                "List documents whose row the file no longer has",
                Arg(("file",), metavar="FILE", help="the source, whole"),
                CONNECTION,
                *ROWS,
                function="ledger.stale",
            ),
            _command(
                "superseded",
                "List documents that newer ones of the same key replaced",
                ONLY_SITE,
                Arg(("--source-name",), metavar="NAME", help="only of this source"),
                function="ledger.superseded",
            ),
            _command(
                "forget",
                "Record that documents were deleted at the service",
                Arg(("entry",), metavar="DOCUMENT", nargs="*", help="document ids, or keys of entries"),
                DELETED,
                Arg(("--dry-run",), action="store_true", help="change nothing, and count"),
                ONLY_SITE,
                function="upkeep.forget",
            ),
            _command(
                "resolve",
                "Settle ambiguous entries by hand, after a look at the site",
                Arg(
                    ("entry",),
                    metavar="ENTRY",
                    nargs="*",
                    help="keys, or the beginnings of them, as ambiguous lists them",
                ),
                Arg(
                    ("--as",),
                    dest="outcome",
                    choices=("created", "not-created", "deleted", "done", "refused"),
                    required=True,
                    help="what you saw; done and refused are created and not-created, deleted is what forget does",
                ),
                Arg(
                    ("--findings",),
                    metavar="FILE",
                    help="findings file of a load: its ambiguous rows; for deleted, its stale and superseded ones",
                ),
                Arg(("--id",), metavar="ID", help="of the document or request that there is, for created"),
                Arg(("--file",), metavar="FILE", help="the source, for created: says which content the site has"),
                Arg(("--force",), action="store_true", help="even if a task may be sending it right now"),
                ONLY_SITE,
                *IN_FILE,
                function="ledger.resolve",
            ),
            _command(
                "loads",
                "List the latest loads, with what they counted",
                ONLY_SITE,
                Arg(("--limit",), type=int, default=20, metavar="N", help="how many at most"),
                function="upkeep.loads",
            ),
            _command(
                "prune",
                "Delete old records that nobody needs, and old findings files",
                Arg(("--older-than",), type=int, required=True, metavar="DAYS", help="what is older than so many days"),
                Arg(("--dry-run",), action="store_true", help="delete nothing, and count"),
                function="upkeep.prune",
            ),
            _command("rekey", "Bring the keys of an older ledger to today's form", function="rekey.rekey"),
        ),
    ),
    _command(
        "sandbox",
        "Run the embedded service, for development and tests",
        Arg(("--port",), type=int, metavar="PORT", help="port to listen on; 0 lets the system pick one"),
        Arg(("flags",), nargs="*", metavar="-- FLAG", help="further flags of the embedded service, after --"),
    ),
)
