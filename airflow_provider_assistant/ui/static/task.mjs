// The tab of a task instance: what it did, what a person should look at, and where its results are.

import {
  Choice,
  Fragment,
  Frame,
  h,
  Note,
  PageLink,
  routeUrl,
  Section,
  Shown,
  Table,
  Text,
  useData,
  useLocation,
  useState,
  When,
} from "./core.mjs";
import { PartLink } from "./address.mjs";
import { Histogram, StackedBar } from "./charts.mjs";
import { MARKS, SettleDialog } from "./dialog.mjs";
import { duration, number, percent, plural } from "./format.mjs";
import { LoadError, Outcome, ROW_OUTCOMES } from "./loads.mjs";
import { Pages, usePages } from "./paging.mjs";
import { Failed, VerdictBadge } from "./quality.mjs";

// States in which a task may still change what the tab shows, and milliseconds until it is read again.
const UNDER_WAY = ["scheduled", "queued", "running", "deferred", "up_for_retry", "up_for_reschedule", "restarting"];
const AGAIN = 5000;
const QUESTION_OUTCOMES = [
  ["complete", "var(--created)", "Answered."],
  ["failed", "var(--failed)", "The service says that the request failed."],
  ["timed_out", "var(--skipped)", "Not answered in time."],
  ["lost", "var(--ambiguous)", "The service does not know the request any more."],
  ["not_submitted", "var(--unchanged)", "Not sent, because the batch stopped."],
];
// What a person does about findings of a kind.
const FINDINGS = {
  rejected: "Refused because of the row itself. Correct it in the source.",
  ambiguous: "Sent, and nobody knows whether it was created. Settle it on the page Assistant.",
  failed: "Not created because the service failed or the load stopped. The next try sends it.",
  skipped: "Left as it is on purpose, or another task loads it.",
  draft: "Created, and the service does not use it. Activate the document on the site.",
  superseded: "Its content has changed. Delete the older documents on the site.",
  stale: "No longer in the source. Delete the document on the site.",
  left_out: "Not read from the source. Repair or convert it, or exclude it from the source.",
  repeated: "The service kept an earlier rating of the answer. Nothing to do.",
  possibly_duplicated: "An earlier try may have created it as well. Look for a second document on the site.",
};
const REMOVABLE = ["superseded", "stale"];
const EMPTY = {
  other:
    "There is nothing to show of this task. Loads, chat batches, evaluations, ratings by rule and exports have their " +
    "counts and findings here.",
  unknown: "This task has not run yet. Its counts and findings appear here as soon as it has.",
};

export function TaskTab({ dagId, runId, taskId, mapIndex }) {
  const region = new URLSearchParams(useLocation().search).get("region_id");
  const path = `api/tasks/${[dagId, runId, taskId, mapIndex ?? -1].map(encodeURIComponent).join("/")}`;
  const [every, setEvery] = useState(null);
  const data = useData(path, { region }, every);
  const next = UNDER_WAY.includes(data.data?.state) ? AGAIN : null;
  if (next !== every) setEvery(next);
  return h(
    Frame,
    { className: "tab" },
    h(Shown, { of: { ...data, isOld: false }, what: "this task", isEmpty: () => false }, (reply) =>
      h(Reply, { reply, path, region }),
    ),
  );
}

function Reply({ reply, path, region }) {
  if (reply.is_mapped_summary)
    return h(Note, null, "This task is mapped. Open one of its task instances to see what it did.");
  if (EMPTY[reply.kind]) {
    return h(Note, null, EMPTY[reply.kind], " ", h(PartLink, { part: "loads" }, "Open the page Assistant"));
  }
  const hasNothing =
    reply.kind !== "ratings" &&
    !(reply.problem || reply.tries.length || reply.batch || reply.evaluation || reply.written.length);
  return h(
    Fragment,
    null,
    hasNothing &&
      h(
        Note,
        null,
        UNDER_WAY.includes(reply.state)
          ? "This task has recorded nothing yet."
          : "This task has recorded nothing: it ended before it began to send.",
      ),
    reply.tries.length > 0 && h(Tries, { tries: reply.tries }),
    reply.batch && h(Batch, { batch: reply.batch }),
    reply.evaluation && h(Evaluation, { evaluation: reply.evaluation }),
    reply.written.length > 0 && h(Written, { written: reply.written }),
    reply.has_findings && h(Findings, { path, region, reply }),
  );
}

// -- loads -----------------------------------------------------------------------------------------

/** Sentence for the last try: its outcome and time. */
function heading(load, count) {
  const which = count > 1 ? `Try ${count} of ${count}` : "The load";
  const verb = {
    succeeded: "succeeded",
    "succeeded with findings": "succeeded, and left rows to look at",
    failed: "failed",
    deferred: "waits for the service",
    running: "is running",
    unfinished: "was killed",
  }[load.outcome];
  return `${which} ${verb}`;
}

function Tries({ tries }) {
  const last = tries.at(-1);
  const { counts } = last;
  const notes = [
    [counts.drafts, "of the created documents are not in use: drafts, or with a status that is not known"],
    [counts.changed, "of the created documents replace an older one"],
    [counts.possibly_duplicated, "may exist twice on the site"],
    [counts.stale, "are no longer in the source"],
    [counts.left_out, "files, pages, rows or chunks were left out of the source; the task's log says why"],
    [counts.throttled, `of ${plural(counts.requests ?? 0, "request")} were answered with 429 (too many requests)`],
  ].filter(([count]) => count);
  const parts = ROW_OUTCOMES.map(([name, color, text]) => [name, counts[name], color, text]);
  return h(
    Section,
    { id: "load", title: heading(last, tries.length), wide: true },
    h(
      "p",
      null,
      h(Outcome, { load: last }),
      " ",
      h(Text, { text: last.source }),
      " on site ",
      h(Text, { text: last.site_id }),
      ", started ",
      h(When, { at: last.started_at }),
      last.seconds !== null && `, took ${duration(last.seconds)}`,
    ),
    h(LoadError, { load: last }),
    counts.rows === null
      ? h(
          "p",
          { className: "muted" },
          last.outcome === "running"
            ? "Its rows are counted when it ends."
            : "It ended before its rows were counted. The ledger has the outcome of every row that was sent.",
        )
      : h(StackedBar, { parts, noun: "rows", label: "Rows by outcome" }),
    notes.length > 0 &&
      h(
        "ul",
        { className: "items" },
        notes.map(([count, text]) => h("li", { key: text }, h("strong", null, number(count)), " ", text)),
      ),
    tries.length > 1 && h(EarlierTries, { tries: tries.slice(0, -1) }),
  );
}

function EarlierTries({ tries }) {
  const rows = tries.map((load, at) => ({ load, at: at + 1 })).reverse();
  const columns = [
    ["Try", (row) => number(row.at), "number"],
    ["Started", (row) => h(When, { at: row.load.started_at })],
    ["Outcome", (row) => h(Outcome, { load: row.load })],
    ...ROW_OUTCOMES.map(([name]) => [name, (row) => number(row.load.counts[name]), "number"]),
    ["Error", (row) => h(Text, { text: row.load.error })],
  ];
  return h(Fragment, null, h("h3", null, "Earlier tries"), h(Table, { caption: "Earlier tries", columns, rows }));
}

// -- chat batches, evaluations, exports ----------------------------------------------------------------

function Batch({ batch }) {
  const parts = QUESTION_OUTCOMES.map(([name, color, text]) => [name.replace("_", " "), batch[name], color, text]);
  const latencies = [
    ["p50", "median"],
    ["p95", "p95"],
    ["p99", "p99"],
  ].filter(([name]) => batch[name] !== null);
  return h(
    Section,
    { id: "batch", title: `${number(batch.complete)} of ${plural(batch.rows, "question")} answered`, wide: true },
    h(StackedBar, { parts, noun: "questions", label: "Questions by outcome" }),
    batch.rejected > 0 &&
      h("p", null, `${plural(batch.rejected, "question was", "questions were")} rejected because of the row itself.`),
    batch.low_confidence !== null &&
      h("p", null, `${plural(batch.low_confidence, "answer has", "answers have")} low confidence.`),
    latencies.length > 0 &&
      h(
        "p",
        null,
        "Latency: ",
        latencies.map(([name, text]) => `${text} ${duration(batch[name])}`).join(", "),
        batch.measured > 0 ? `, measured for ${plural(batch.measured, "answer")}.` : ".",
      ),
    batch.histogram.length > 0 &&
      h(Histogram, { title: "Latency", bins: batch.histogram, unit: "seconds", noun: "answers" }),
    batch.problem && h(Note, null, batch.problem.text),
    batch.output_path && h("p", null, "Answers: ", h(Text, { text: batch.output_path })),
  );
}

function Evaluation({ evaluation }) {
  const isWorse = evaluation.failed_rules.some((rule) => rule.verdict === "worse");
  const verdict = isWorse ? "worse" : evaluation.verdict;
  const title = {
    passed: "The gate passed",
    failed: "The gate failed",
    worse: "The gate failed: the answers got worse",
    none: "Evaluated without a gate",
  }[verdict];
  const columns = [
    ["Score", ([name]) => h(Text, { text: name })],
    ["Mean", ([, mean]) => number(mean), "number"],
    ["Against the baseline", ([name]) => (evaluation.worse.includes(name) ? "worse" : "–")],
  ];
  return h(
    Section,
    { id: "evaluation", title, wide: true },
    h(
      "p",
      null,
      h(VerdictBadge, { verdict }),
      " ",
      h(Text, { text: evaluation.name }),
      ": ",
      evaluation.pass_rate !== null && `${percent(evaluation.pass_rate)} passed, `,
      `${number(evaluation.answered)} of ${plural(evaluation.questions, "question")} answered. `,
      evaluation.report && h(PageLink, { href: evaluation.report }, "Open the report"),
    ),
    h(Failed, { evaluation }),
    h(Table, { caption: "Scores", columns, rows: Object.entries(evaluation.means) }),
    h("p", null, h(PartLink, { part: "evaluations" }, "Compare with earlier evaluations")),
  );
}

function Written({ written }) {
  const columns = [
    ["Dataset", (row) => h(Text, { text: row.name })],
    ["Rows", (row) => number(row.rows), "number"],
    ["Path", (row) => (row.url ? h(PageLink, { href: row.url }, row.path) : h(Text, { text: row.path }))],
  ];
  return h(
    Section,
    { id: "written", title: "Written", wide: true },
    h(Table, { caption: "What the task wrote", columns, rows: written }),
  );
}

// -- findings --------------------------------------------------------------------------------------

/** The site and source of a load, so that a link leads to its entries only. */
function whereOfLoad(reply) {
  const load = reply.tries.at(-1);
  return { site: load?.site_id ?? "", source: load?.source ?? "" };
}

function Findings({ path, region, reply }) {
  const [kind, setKind] = useState("");
  const [body, setBody] = useState(null);
  const [result, setResult] = useState("");
  const [offset, turn] = usePages(`${path} ${kind}`);
  const data = useData(`${path}/findings`, { kind, region, offset }, UNDER_WAY.includes(reply.state) ? AGAIN : null);
  const isEmpty = (found) => !found.kinds.length;
  const columnsOf = (rows) => [
    ["Kind", (row) => row.kind.replaceAll("_", " ")],
    ["Row", (row) => number(row.row), "number"],
    ["Key", (row) => h(Text, { text: row.key })],
    ...(rows.some((row) => row.group) ? [["Group", (row) => h(Text, { text: row.group })]] : []),
    ["Why", (row) => h(Text, { text: row.reason })],
    ["Documents", (row) => h(Text, { text: row.document_ids.join(", ") })],
  ];
  const site = reply.tries.at(-1)?.site_id;
  const removal = (found) => ({
    outcome: "removed",
    site_id: site,
    document_ids: found.rows.flatMap((row) => row.document_ids),
  });
  return h(
    Section,
    { id: "findings", title: "Findings", wide: true, intro: "Rows that a person should look at." },
    result && h("p", { className: "note good", role: "status" }, result),
    h(Shown, { of: data, what: "findings", isEmpty, empty: "There are none." }, (found) => {
      const sum = found.kinds.reduce((left, one) => left + one.count, 0);
      return h(
        Fragment,
        null,
        h(
          "div",
          { className: "filters" },
          h(Choice, {
            label: "Kind",
            value: kind,
            onChange: setKind,
            options: [
              ["", `all ${number(sum)}`],
              ...found.kinds.map((one) => [one.kind, `${one.kind.replaceAll("_", " ")} (${number(one.count)})`]),
            ],
          }),
          h(
            "a",
            { className: "button", href: routeUrl(`${path}/findings.csv`, { kind, region }), download: true },
            "Download as CSV",
          ),
          reply.may_settle &&
            site &&
            REMOVABLE.includes(kind) &&
            found.rows.some((row) => row.document_ids.length) &&
            h("button", { onClick: () => setBody(removal(found)) }, `Mark these as ${MARKS.removed}`),
          (kind === "ambiguous" || !kind) &&
            found.kinds.some((one) => one.kind === "ambiguous") &&
            h(PartLink, { part: "unresolved", where: whereOfLoad(reply) }, "Settle ambiguous entries"),
        ),
        kind && FINDINGS[kind] && h("p", { className: "muted" }, FINDINGS[kind]),
        h(Table, { caption: "Findings", columns: columnsOf(found.rows), rows: found.rows }),
        h(Pages, { of: found, noun: "findings", onTurn: turn }),
      );
    }),
    body &&
      h(SettleDialog, {
        body,
        onClose: () => setBody(null),
        onDone: (text) => {
          setBody(null);
          setResult(text);
          data.again();
        },
      }),
  );
}
