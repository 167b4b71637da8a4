"""The input of ``airflow assistant evaluate``, checked before the first request."""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import os
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from airflow.providers.common.compat.sdk import ObjectStoragePath

from airflow_provider_assistant import lake
from airflow_provider_assistant.cli.gate_file import GateFile, read_gate
from airflow_provider_assistant.cli.golden_input import (
    Part,
    check_tags,
    part_of,
    possible_answers,
    read_answered,
    read_golden,
)
from airflow_provider_assistant.cli.output import Console
from airflow_provider_assistant.cli.runner import open_hook
from airflow_provider_assistant.evaluation.extra import check_extra
from airflow_provider_assistant.evaluation.rules import ANSWERS, PREVIOUS, check_pairwise
from airflow_provider_assistant.evaluation.run_directory import RunDirectory, find_baseline
from airflow_provider_assistant.exceptions import NOTHING_SENT, AssistantInputError
from airflow_provider_assistant.hooks.assistant import AssistantHook
from airflow_provider_assistant.storage.paths import object_storage_path, usable_path, writable_file

if TYPE_CHECKING:
    import pyarrow as pa

    from airflow_provider_assistant.evaluation.baseline import Baseline
    from airflow_provider_assistant.evaluation.case import Case

DEFAULT_CONNECTION = "assistant_default"
BASE_URL, API_KEY = "ASSISTANT_BASE_URL", "ASSISTANT_API_KEY"
# Folder within that of --save for evaluations of a part of the golden set.
PART = "part"


class EvaluationInput(NamedTuple):
    """
    What is evaluated, checked before the first request.

    :param cases: The questions; they have answers only with ``--answers``.
    :param golden: The golden set to ask. None with ``--answers``.
    :param answers: The saved answers of ``--answers``; or None.
    :param hooks: Hooks of the sites to ask.
    """

    gate: GateFile
    cases: list[Case]
    golden: pa.Table | None
    answers: pa.Table | None
    part: Part | None
    directory: RunDirectory
    baseline: Baseline | None
    hooks: list[AssistantHook]


def checked_input(out: Console, args: argparse.Namespace) -> EvaluationInput:
    """
    Read and check everything that does not need an answer.

    :raises AssistantInputError: Anything is wrong with it. Nothing was sent.
    """
    _check_arguments(args)
    check_extra()
    has_baseline = bool(args.against or args.against_site or args.only_failing)
    gate = read_gate(args.gate, has_baseline=has_baseline)
    scorer_names = [scorer.name for scorer in gate.scorers]
    other_site = {ANSWERS: args.against_site} if args.against_site else None
    check_pairwise(scorer_names, other_site)
    golden = answers = None
    if args.answers:
        answers, cases = read_answered(args)
    else:
        golden, cases = read_golden(args)
    check_tags(gate.criteria.rules, cases)
    directory = _directory(args)
    against = args.against
    if args.only_failing:
        against = args.against or args.save
    # Here it is a folder, not the word for the runs before this one.
    if against == PREVIOUS:
        against = f"./{PREVIOUS}"
    baseline = find_baseline(directory, against)
    part = part_of(args, cases, gate.criteria.pass_if, baseline)
    if part:
        golden = part.rows(golden, cases)
        answers = part.rows(answers, cases)
        cases = part.of(cases)
        rules = part.rules(gate.criteria.rules, cases)
        baseline = part.baseline(baseline)
        gate = dataclasses.replace(gate, criteria=gate.criteria._replace(rules=rules))
    answered = cases if golden is None else possible_answers(cases, args.repeat)
    gate.judges.check(answered, gate.criteria.rules)
    _check_outputs(args, directory)
    hooks = []
    if golden is not None:
        conn_id = _connection(args.conn_id)
        sites = [args.site, args.against_site] if args.against_site else [args.site]
        hooks = [open_hook(out, argparse.Namespace(conn_id=conn_id, site=site)) for site in sites]
        for hook in hooks:
            hook.resolve_site_id()
    return EvaluationInput(gate, cases, golden, answers, part, directory, baseline, hooks)


def _check_arguments(args: argparse.Namespace) -> None:
    problem = None
    if not args.file and not args.answers:
        problem = "give FILE, the golden set, or --answers"
    elif args.against and args.against_site:
        problem = "give --against or --against-site, not both"
    elif args.answers and args.against_site:
        problem = "--answers asks nothing: remove --against-site"
    elif args.repeat < 1:
        problem = f"--repeat must be at least 1, not {args.repeat}"
    elif args.only_failing and not (args.against or args.save):
        problem = "--only-failing needs --against, or --save with an earlier evaluation"
    for name in ("timeout", "poll_interval"):
        seconds = getattr(args, name)
        if not 0 < seconds < math.inf:
            problem = f"--{name.replace('_', '-')} must be more than 0 seconds, not {seconds:g}"
    if problem:
        raise AssistantInputError(problem, safe=NOTHING_SENT)


def name_of(args: argparse.Namespace, part: Part | None) -> str:
    """Return the name of the evaluation: that of the file without its suffix, and the part of it."""
    name = Path(args.file or args.answers).stem
    return f"{name} ({part.text})" if part else name


def _directory(args: argparse.Namespace) -> RunDirectory:
    """Return the folder of the evaluation. Without ``--save``, it is only used to find the baseline."""
    if not args.save:
        return RunDirectory(object_storage_path(str(Path(args.file or args.answers).parent)))
    folder = output_path(args.save)
    # The evaluation of a part must not replace that of the whole golden set.
    return RunDirectory(folder / PART if args.tag or args.only_failing else folder)


def output_path(path: object) -> ObjectStoragePath:
    """Return a path to write to, which may be local or in object storage."""
    return object_storage_path(str(usable_path(path)))


def _check_outputs(args: argparse.Namespace, directory: RunDirectory) -> None:
    """Check that all files can be written, and create their folders."""
    for name in ("junit", "report"):
        path = getattr(args, name)
        if path:
            lake.check_writable(output_path(writable_file(path, f"--{name}")).parent)
    if args.save:
        lake.check_writable(directory.folder)


def _connection(conn_id: str | None) -> str:
    """Return the id of the connection: the argument, or else that of the environment's variables, or the default."""
    if conn_id:
        return conn_id
    if not os.environ.get(BASE_URL):
        return DEFAULT_CONNECTION
    # A connection in the environment needs no database, which CI does not have.
    fields = {"conn_type": "assistant", "host": os.environ[BASE_URL], "password": os.environ.get(API_KEY)}
    os.environ["AIRFLOW_CONN_ASSISTANT_ENVIRONMENT"] = json.dumps(fields)
    return "assistant_environment"
