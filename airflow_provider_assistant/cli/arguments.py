"""Arguments that several commands have."""

from __future__ import annotations

from airflow.cli.cli_config import Arg

from airflow_provider_assistant.loading.options import DEFAULTS, OPTIONS, Option

OUTPUT = Arg(
    ("-o", "--output"),
    choices=("text", "json"),
    default="text",
    help="output format: text for people, JSON for programs",
)
VERBOSE = Arg(("-v", "--verbose"), action="store_true", help="write a detailed log to standard error")
CONNECTION = Arg(
    ("-c", "--conn-id"), default="assistant_default", metavar="CONN_ID", help="Airflow connection of type assistant"
)
SITE = Arg(("--site",), metavar="SITE_ID", help="site (default: that of the connection)")
ONLY_SITE = Arg(("--site",), metavar="SITE_ID", help="only this site (default: all sites)")
ONLY_SOURCE = Arg(("--source",), metavar="NAME", help="only this source (default: all sources)")
# Words of the ledger, which is not imported here: every command of Airflow reads these definitions.
STATES = ("created", "unresolved", "doubled", "superseded", "stale", "draft", "rejected", "failed", "open")
KINDS = ("file", "text", "qa", "chat", "rating")
SETTLED = ("created", "not-created", "removed")
# Arguments that select entries of the ledger.
ENTRIES = (
    Arg(("--state",), choices=STATES, help="only entries of this list"),
    Arg(("--kind",), choices=KINDS, help="only this kind (default: all kinds)"),
    ONLY_SITE,
    ONLY_SOURCE,
    Arg(("--key",), metavar="TEXT", help="only entries whose key contains this text (default: all)"),
)
TENANT = Arg(("--tenant",), metavar="TENANT_ID", help="tenant (default: that of the connection)")
COMMON = (OUTPUT, VERBOSE)

# Arguments that determine the keys and contents of the rows of a file. They must match those of the operator, or the
# ledger does not recognise the rows.
KIND = Arg(("--kind",), choices=("qa", "text"), default="qa", help="kind of document to create per row")
COLUMN = Arg(
    ("--column",),
    action="append",
    metavar="FIELD=COLUMN",
    help="take a field from a column of another name; repeatable",
)
CONSTANT = Arg(
    ("--constant",), action="append", metavar="FIELD=VALUE", help="set a field to one value for all rows; repeatable"
)
KEY = Arg(
    ("--key",),
    action="append",
    metavar="COLUMN",
    help="column that identifies a row; repeatable (default: the whole row)",
)
GROUP = Arg(
    ("--group",),
    action="append",
    metavar="COLUMN",
    help="column with the page, file or ticket that a row is a part of; repeatable (default: no groups)",
)
SOURCE_NAME = Arg(
    ("--source-name",),
    metavar="NAME",
    help="name of the source in the ledger; use dag_id.task_id for the source of a task (default: path of the file)",
)
ENCODING = Arg(("--encoding",), metavar="NAME", help="encoding of a CSV or JSON file, such as cp1252 (default: utf-8)")
CSV_OPTION = Arg(
    ("--csv-option",),
    action="append",
    metavar="NAME=VALUE",
    help="format of a CSV file, such as delimiter=; or header=none, see csv_options of the operators; repeatable",
)
ALLOW_EMPTY = Arg(("--allow-empty",), action="store_true", help="succeed if the file has no rows")
QUESTION_KEY = Arg(
    ("--key",),
    action="append",
    metavar="COLUMN",
    help="column that identifies a question; repeatable (default: key if there is one, or else the message)",
)
FORMAT = (CSV_OPTION, ENCODING)
GATE = Arg(
    ("--gate",),
    metavar="FILE",
    help="YAML file with scorers, judge, pass_if, gate and refusal_phrases, as in the operator",
)
# How the commands read a golden set.
GOLDEN = (GATE, COLUMN, QUESTION_KEY, *FORMAT)
IN_FILE = (KIND, COLUMN, CONSTANT, KEY, *FORMAT, ALLOW_EMPTY)
NAMESPACE = Arg(("--namespace",), metavar="NAME", help="separate the keys of this load from those of other loads")
ROWS = (SITE, SOURCE_NAME, NAMESPACE, GROUP, *IN_FILE)


def _load_option(name: str, option: Option) -> Arg:
    flags, default = (f"--{name.replace('_', '-')}",), getattr(DEFAULTS, name)
    if option.choices:
        return Arg(flags, choices=option.choices, default=default, help=option.help)
    if default is False:
        return Arg(flags, action="store_true", help=option.help)
    return Arg(flags, type=float, default=default, metavar="N", help=option.help)


LOAD_OPTIONS = tuple(_load_option(name, option) for name, option in OPTIONS.items())
