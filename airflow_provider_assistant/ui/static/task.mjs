// The tab of a task instance: what it did, and what a person should look at.

import {
  Choice,
  Fragment,
  Frame,
  h,
  linkUrl,
  Note,
  PageLink,
  Pages,
  Section,
  Shown,
  Table,
  Text,
  useData,
  useLocation,
  useState,
  When,
} from "./core.mjs";
import { duration, number, percent, words } from "./format.mjs";
import { PageAt } from "./page.mjs";
import { KINDS, Outcome, PARTS, useOffset } from "./tries.mjs";

// States in which a task may still change what the tab shows, and milliseconds until it is read again.
const UNDER_WAY = ["scheduled", "queued", "running", "deferred", "up_for_retry", "up_for_reschedule", "restarting"];
const AGAIN = 5000;
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
const VERBS = {
  succeeded: "succeeded",
  "succeeded with findings": "succeeded, and left something to look at",
  failed: "failed",
  deferred: "waits for the service",
  running: "is running",
  unfinished: "was killed",
};
const SHARES = ["pass_rate", "coverage"];

export function TaskTab({ dagId, runId, taskId, mapIndex }) {
  const region = new URLSearchParams(useLocation().search).get("region_id");
  const path = `api/tasks/${[dagId, runId, taskId, mapIndex ?? -1].map(encodeURIComponent).join("/")}`;
  const [every, setEvery] = useState(null);
  const data = useData(path, { region }, every);
  const next = UNDER_WAY.includes(data.data?.state) ? AGAIN : null;
  if (next !== every) setEvery(next);
  const shown = (reply) => h(Reply, { reply, path, region });
  return h(
    Frame,
    { className: "tab" },
    h(Shown, { of: { ...data, isOld: false }, what: "this task", isEmpty: (reply) => Boolean(reply.problem) }, shown),
  );
}

/** Why there is nothing to show of a task. */
function nothingOf({ operator, state, is_mapped: isMapped }) {
  if (isMapped) return "This task is mapped. Open one of its task instances to see what it did.";
  if (operator === null) return "This task has not run yet. Its counts and findings appear here as soon as it has.";
  if (UNDER_WAY.includes(state)) return "This task has recorded nothing yet.";
  return "This task has recorded nothing in the ledger: it ended before, it is not a task of this package, or it was pruned.";
}

function Reply({ reply, path, region }) {
  const { tries } = reply;
  const last = tries.at(-1);
  if (!last) return h(Note, null, nothingOf(reply), " ", h(PageAt, { where: {} }, "Open the page Assistant"));
  const { source, site_id: site, service } = last;
  const name = KINDS[last.task_kind] ?? last.task_kind;
  const subject = tries.length > 1 ? `Try ${tries.length} of ${tries.length}` : `The ${name}`;
  return h(
    Fragment,
    null,
    h(
      Section,
      { id: "try", title: `${subject} ${VERBS[last.outcome]}` },
      h(
        "p",
        null,
        h(Outcome, last),
        " ",
        h(Text, { text: source }),
        site && [" on site ", h(Text, { key: "site", text: site })],
        ", started ",
        h(When, { at: last.started_at }),
        last.seconds !== null && `, took ${duration(last.seconds)}`,
        ". ",
        h(PageAt, { where: { site, service, source } }, "Earlier tries and entries"),
      ),
      last.error && h(Note, { kind: "bad" }, h(Text, { text: last.error })),
      h(Counts, last),
      tries.length > 1 && h(EarlierTries, { tries }),
    ),
    last.report && h(Report, { href: last.report }),
    h(Findings, { path, region, last, every: UNDER_WAY.includes(reply.state) ? AGAIN : null }),
  );
}

/** The counts of a try: the parts of its rows as a bar, and all others as a list. */
function Counts({ task_kind: kind, counts, outcome }) {
  const parts = (PARTS[kind] ?? []).filter((name) => name in counts);
  const others = Object.entries(counts).filter(([name, value]) => !parts.includes(name) && value !== null);
  if (others.length === 0) {
    const text = outcome === "running" ? "Its counts appear when it ends." : "It ended before it had counted anything.";
    return h("p", { className: "muted" }, text);
  }
  return h(
    Fragment,
    null,
    parts.length > 0 && h(Bar, { parts: parts.map((name) => [name, counts[name]]) }),
    h(
      "dl",
      { className: "counts" },
      others.map(([name, value]) =>
        h("div", { key: name }, h("dt", null, words(name)), h("dd", null, h(Value, { name, value }))),
      ),
    ),
  );
}

/** Parts of a whole as one bar, and a legend whose numbers add up to it. */
function Bar({ parts }) {
  const text = parts.filter(([, count]) => count).map(([name, count]) => `${number(count)} ${words(name)}`);
  const sum = parts.reduce((left, [, count]) => left + count, 0);
  return h(
    Fragment,
    null,
    h(
      "div",
      { className: "bar", role: "img", "aria-label": `${number(sum)} rows: ${text.join(", ")}` },
      parts.map(([name, count]) => count > 0 && h("span", { key: name, className: name, style: { flexGrow: count } })),
    ),
    h(
      "dl",
      { className: "counts" },
      parts.map(([name, count]) =>
        h("div", { key: name }, h("dt", null, h("span", { className: `swatch ${name}` }), words(name)), h("dd", null, number(count))),
      ),
    ),
  );
}

/** A value of a result as text. */
function textOf(value, name) {
  if (typeof value === "number") return SHARES.includes(name) ? percent(value) : number(value);
  if (Array.isArray(value)) return value.map((item) => textOf(item)).join(", ") || "none";
  if (typeof value !== "object" || value === null) return String(value ?? "–");
  return Object.entries(value)
    .map(([key, item]) => `${key}: ${textOf(item, key)}`)
    .join("; ");
}

/** A value of a result: a number, a text, or a list or mapping of them. */
function Value({ name, value }) {
  const isMapping = (one) => typeof one === "object" && one !== null && !Array.isArray(one);
  const isList = Array.isArray(value) && value.some(isMapping);
  if (!isList && !isMapping(value)) return h(Text, { text: textOf(value, name) });
  const items = isList ? value.map((item) => textOf(item)) : Object.entries(value).map((one) => textOf(Object.fromEntries([one])));
  return h("ul", { className: "items" }, items.map((text, at) => h("li", { key: at }, h(Text, { text }))));
}

function EarlierTries({ tries }) {
  const rows = tries.slice(0, -1).map((row, at) => ({ ...row, at: at + 1 }));
  const columns = [
    ["Try", (row) => number(row.at), "number"],
    ["Started", (row) => h(When, { at: row.started_at })],
    ["Outcome", (row) => h(Outcome, row)],
    ["Took", (row) => duration(row.seconds), "number"],
    ["Error", (row) => h(Text, { text: row.error })],
  ];
  return h(Fragment, null, h("h3", null, "Earlier tries"), h(Table, { caption: "Earlier tries", columns, rows: rows.reverse() }));
}

/** The report of an evaluation, in a frame that runs no scripts. */
const Report = ({ href }) =>
  h(
    Section,
    { id: "report", title: "Report" },
    h("p", null, h(PageLink, { href }, "Open the report in a new tab")),
    h("iframe", { src: linkUrl(href), title: "Report of the evaluation", sandbox: "" }),
  );

function Findings({ path, region, last, every }) {
  const [kind, setKind] = useState("");
  const [offset, setOffset] = useOffset(`${path} ${kind}`);
  const data = useData(`${path}/findings`, { kind, region, offset }, every);
  const where = { site: last.site_id, service: last.service, source: last.source };
  const columns = [
    ["Kind", (row) => words(row.kind)],
    ["Row", (row) => number(row.row), "number"],
    ["Key", (row) => h(Text, { text: row.key })],
    ["Why", (row) => h(Text, { text: row.reason })],
    ["Documents", (row) => h(Text, { text: row.document_ids.join("\n") })],
  ];
  const isEmpty = ({ kinds }) => Object.keys(kinds).length === 0;
  return h(
    Section,
    { id: "findings", title: "Findings", intro: "Rows that a person should look at." },
    h(Shown, { of: data, what: "findings", isEmpty, empty: "There are none." }, (found) => {
      const sum = Object.values(found.kinds).reduce((left, count) => left + count, 0);
      const kinds = Object.entries(found.kinds).map(([name, count]) => [name, `${words(name)} (${number(count)})`]);
      return h(
        Fragment,
        null,
        h(
          "div",
          { className: "filters" },
          h(Choice, { label: "Kind", value: kind, onChange: setKind, options: [["", `all ${number(sum)}`], ...kinds] }),
          found.kinds.ambiguous > 0 && h(PageAt, { where: { ...where, list: "unresolved" } }, "Settle ambiguous entries"),
        ),
        kind && h("p", { className: "muted" }, FINDINGS[kind]),
        h(Table, { caption: "Findings", columns, rows: found.rows }),
        h(Pages, { of: found, noun: ["finding", "findings"], onTurn: setOffset }),
      );
    }),
    last.findings && h("p", null, "The ledger keeps the first 1,000 findings. All are in ", h(Text, { text: last.findings }), "."),
  );
}
