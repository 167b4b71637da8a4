"""Definitions of the commands, in the form that Airflow expects from a provider."""

from __future__ import annotations

from airflow.cli.cli_config import ActionCommand, Arg, GroupCommand, lazy_load_command

from airflow_provider_assistant.cli.arguments import (
    COMMON,
    CONNECTION,
    ENTRIES,
    GOLDEN,
    LOAD_OPTIONS,
    ONLY_SITE,
    ONLY_SOURCE,
    ROWS,
    SETTLED,
    SITE,
    TENANT,
)

EPILOG = (
    "Exit codes: 0 success; 1 the command ran and found a problem (a smoke step, rows of a load, a ledger entry, a "
    "failed gate); 2 evaluate could not judge, or invalid arguments, input or connection; 3 the service rejected the "
    "request (400, 401, 403, 404); 4 the service failed, is busy or cannot be reached: try again later; 5 the ledger "
    "cannot be used; 70 a bug; 130 or 143 interrupted."
)


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
        "Run the smoke test: try each route that a production setup needs",
        CONNECTION,
        SITE,
        TENANT,
        Arg(("--document",), metavar="FILE", help="file to upload (default: a small built-in file)"),
        Arg(("--question",), metavar="TEXT", help="question to ask (default: one about the built-in file)"),
        Arg(
            ("--timeout",),
            type=float,
            default=120.0,
            metavar="SECONDS",
            help="longest wait for the async answer, in seconds",
        ),
    ),
    GroupCommand(
        name="documents",
        help="List the documents of a site, and compare them with the ledger",
        epilog=EPILOG,
        subcommands=(
            _command(
                "list",
                "List the documents of a site, with their states",
                CONNECTION,
                SITE,
                function="documents.list_documents",
            ),
            _command(
                "check",
                "Read the list of documents, and show what is understood of it",
                CONNECTION,
                SITE,
                function="documents.check",
            ),
            _command(
                "reconcile",
                "Compare the ledger with the documents of a site, and correct it",
                Arg(
                    ("file",),
                    metavar="FILE",
                    nargs="?",
                    help="the complete source, as load reads it, to restore a lost ledger (default: none)",
                ),
                Arg(("--apply",), action="store_true", help="record what was found (default: only show it)"),
                CONNECTION,
                *ROWS,
                function="documents.reconcile_documents",
            ),
        ),
    ),
    _command(
        "read",
        "Show the reply of a route, such as the usage or the sessions",
        Arg(
            ("what",),
            metavar="NAME|PATH",
            help="limits, statistics, or the path of any other route, such as /m2m/tenants/acme-inc/usage",
        ),
        CONNECTION,
        SITE,
        TENANT,
        Arg(("--param",), action="append", metavar="NAME=VALUE", help="parameter of the query; repeatable"),
    ),
    _command(
        "chat",
        "Chat with the assistant in one session",
        CONNECTION,
        SITE,
        Arg(
            ("-m", "--message"),
            metavar="TEXT",
            help="send one message and exit (default: each input line is a message)",
        ),
        Arg(("--session",), metavar="SESSION_ID", help="continue a session (default: a new session)"),
        Arg(("--email",), metavar="ADDRESS", help="e-mail address of the end user"),
        Arg(("--language",), metavar="CODE", help="language code of the replies, such as en"),
    ),
    _command(
        "load",
        "Load a file of rows, each row once",
        Arg(("file",), metavar="FILE", help="path, glob, folder or object storage URL of Parquet, CSV or JSON"),
        CONNECTION,
        *ROWS,
        Arg(("--dry-run",), action="store_true", help="send no row; show what would be sent"),
        *LOAD_OPTIONS,
        Arg(
            ("--findings",),
            metavar="FILE",
            help="Parquet file for the findings (default: in [assistant] findings_folder)",
        ),
    ),
    _command(
        "findings",
        "Show the findings of a load: the rows that a person should look at",
        Arg(("file",), metavar="FILE", help="findings file: a local path or an object storage URL"),
        Arg(
            ("--finding",),
            action="append",
            metavar="KIND",
            help="only this kind of finding, such as superseded; repeatable",
        ),
    ),
    _command(
        "evaluate",
        "Ask a golden set, score the answers and check a gate, for continuous integration",
        Arg(
            ("file",),
            metavar="FILE",
            nargs="?",
            help="the golden set: Parquet, CSV or JSON, local or in object storage; optional with --answers",
        ),
        Arg(
            ("-c", "--conn-id"),
            metavar="CONN_ID",
            help="Airflow connection of type assistant (default: ASSISTANT_BASE_URL and ASSISTANT_API_KEY of the "
            "environment, or else assistant_default)",
        ),
        SITE,
        Arg(("--against",), metavar="PATH", help="compare with an earlier evaluation: its folder or scores.parquet"),
        Arg(("--answers",), metavar="FILE", help="score these saved answers, and ask nothing"),
        Arg(("--repeat",), type=int, default=1, metavar="N", help="number of times to ask each question"),
        Arg(("--session",), metavar="COLUMN", help="column with the conversation of each question; only with --turn"),
        Arg(("--turn",), metavar="COLUMN", help="column with the number of each question within its conversation"),
        Arg(("--junit",), metavar="FILE", help="write the verdict as JUnit XML"),
        Arg(("--report",), metavar="FILE", help="write the report as HTML"),
        Arg(
            ("--save",),
            metavar="FOLDER",
            help="write answers, scores, report and summary, for a later --against",
        ),
        Arg(
            ("--mode",),
            choices=("async", "sync"),
            default="async",
            help="async submits all questions and polls; sync waits for each answer",
        ),
        Arg(
            ("--timeout",),
            type=float,
            default=3600.0,
            metavar="SECONDS",
            help="longest wait for the answers after all questions have been submitted, in seconds",
        ),
        Arg(
            ("--poll-interval",),
            type=float,
            default=5.0,
            metavar="SECONDS",
            help="longest time between two polls of one request, in seconds",
        ),
        *GOLDEN,
    ),
    GroupCommand(
        name="golden-set",
        help="Check golden sets",
        epilog=EPILOG,
        subcommands=(
            _command(
                "check",
                "List missing expectations and contradictions, and refuse what evaluate would refuse",
                Arg(("file",), metavar="FILE", help="the golden set: Parquet, CSV or JSON"),
                *GOLDEN,
                function="golden_set.check",
            ),
        ),
    ),
    GroupCommand(
        name="knowledge",
        help="Look at the documents that a folder or a website becomes",
        epilog=EPILOG,
        subcommands=(
            _command(
                "preview",
                "Show the chunks of files or pages, and what was left out and why; nothing is sent",
                Arg(("source",), metavar="PATH|URL", help="file, folder or glob; or the address of a website"),
                Arg(("--size",), type=int, default=2000, metavar="N", help="maximum characters of a chunk"),
                Arg(("--base-url",), metavar="URL", help="address of the folder on the web"),
                Arg(("--select",), action="append", metavar="CSS", help="content of HTML; repeatable"),
                Arg(
                    ("--remove",),
                    action="append",
                    metavar="CSS",
                    help="parts of HTML that are not content, besides the default; repeatable",
                ),
                Arg(
                    ("--max-documents",),
                    type=int,
                    metavar="N",
                    help="number of files or pages after which the preview ends (default: 100 pages, all files)",
                ),
                Arg(
                    ("--requests-per-second",),
                    type=float,
                    default=1.0,
                    metavar="N",
                    help="maximum number of requests per second to a website",
                ),
                Arg(
                    ("--private-networks",),
                    action="store_true",
                    help="allow private, loopback and link-local IP addresses of a website",
                ),
                Arg(
                    ("--strict",),
                    action="store_true",
                    help="fail if something is left out that could hide lost content",
                ),
                function="knowledge.preview",
            ),
        ),
    ),
    GroupCommand(
        name="ledger",
        help="Inspect and correct the ledger, the record of effects",
        epilog=EPILOG,
        subcommands=(
            _command(
                "list",
                "List the entries of a state, such as those whose outcome is not known, or count those of all",
                *ENTRIES,
                function="ledger.list_entries",
            ),
            _command(
                "resolve",
                "Record what became of entries: of one with an id, or of all that match",
                Arg(
                    ("--as",),
                    dest="outcome",
                    choices=SETTLED,
                    required=True,
                    help="what you found on the site; removed: the document was deleted",
                ),
                Arg(
                    ("--id",),
                    metavar="ID",
                    help="id of the document; with --as created, the id of the document or request that was found",
                ),
                *ENTRIES,
                Arg(
                    ("--confirm",),
                    metavar="TEXT",
                    help="settle without asking what the same command has shown with this text",
                ),
                function="ledger.resolve",
            ),
            _command(
                "rename",
                "Give a service another name, such as that of its new address",
                Arg(("old",), metavar="OLD", help="name of the service in the ledger, see ledger list"),
                Arg(("new",), metavar="NEW", help="its new name, which the connection has"),
                Arg(("--dry-run",), action="store_true", help="change nothing; show the count"),
                ONLY_SITE,
                function="ledger.rename",
            ),
            _command(
                "loads",
                "List the latest loads with their counts, and where their findings are",
                ONLY_SITE,
                ONLY_SOURCE,
                Arg(("--limit",), type=int, default=20, metavar="N", help="maximum number of loads"),
                function="ledger.loads",
            ),
            _command(
                "prune",
                "Delete old entries that are no longer needed, and old findings files",
                Arg(
                    ("--older-than",),
                    type=int,
                    required=True,
                    metavar="DAYS",
                    help="delete entries and files older than this, in days",
                ),
                Arg(("--dry-run",), action="store_true", help="delete nothing; show the counts"),
                function="ledger.prune",
            ),
        ),
    ),
    _command(
        "erase",
        "Erase the rows of a person, and the evaluations of their answers",
        Arg(("--session",), action="append", metavar="SESSION_ID", help="session of the person; repeatable"),
        Arg(("--email",), action="append", metavar="ADDRESS", help="e-mail address of the person; repeatable"),
        Arg(("--lake",), metavar="PATH", help="folder of the datasets (default: [assistant] lake_path)"),
        Arg(
            ("--path",),
            action="append",
            metavar="PATH",
            help="further folder or file: answers of chat batches, evaluations, findings; repeatable",
        ),
        Arg(("--warehouse-conn-id",), metavar="CONN_ID", help="PostgreSQL connection of the warehouse"),
        Arg(("--schema",), default="assistant", metavar="NAME", help="schema of the warehouse"),
        Arg(("--dry-run",), action="store_true", help="change nothing; show the counts"),
        Arg(("--yes",), action="store_true", help="do not ask before erasing"),
        function="erase.erase_person",
    ),
    _command(
        "sandbox",
        "Run the embedded service, for development and tests",
        Arg(("--port",), type=int, metavar="PORT", help="port to listen on; 0 lets the system choose one"),
        Arg(("flags",), nargs="*", metavar="-- FLAG", help="more flags of the embedded service, after --"),
    ),
)
