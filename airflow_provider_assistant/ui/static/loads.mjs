// Loads: their last tries as a table, and the documents over time.

import {
  Choice,
  Fragment,
  h,
  Note,
  Section,
  Shown,
  Table,
  TaskLink,
  taskName,
  Text,
  useData,
  When,
} from "./core.mjs";
import { useAddress } from "./address.mjs";
import { Lines } from "./charts.mjs";
import { duration, number } from "./format.mjs";
import { Pages, usePages } from "./paging.mjs";

// Outcomes of the rows of a load, in the order of the bar.
export const ROW_OUTCOMES = [
  ["created", "var(--created)", "Created by this load; the service confirmed it."],
  ["unchanged", "var(--unchanged)", "Already on the site with this content, or a duplicate of another row."],
  ["skipped", "var(--skipped)", "Left as it is on purpose, or another task loads it."],
  ["rejected", "var(--rejected)", "Refused because of the row itself. Correct it in the source."],
  ["ambiguous", "var(--ambiguous)", "Sent, and nobody knows whether it was created."],
  ["failed", "var(--failed)", "Not created because the service failed or the load stopped."],
];
const OUTCOMES = {
  succeeded: ["good", "succeeded"],
  "succeeded with findings": ["warning", "with findings"],
  failed: ["bad", "failed"],
  deferred: ["plain", "deferred"],
  running: ["plain", "running"],
  unfinished: ["bad", "killed"],
};

/** The outcome of a try of a load as a word. */
export function Outcome({ load }) {
  const [kind, word] = OUTCOMES[load.outcome] ?? ["plain", load.outcome];
  return h("span", { className: `badge ${kind}` }, word);
}

/** The source as a link to the task; the task on a line of its own if the source is not named after it. */
const SourceOfLoad = ({ load }) =>
  load.source === taskName(load.task)
    ? h(TaskLink, { task: load.task })
    : h(Fragment, null, h("div", null, h(Text, { text: load.source })), h(TaskLink, { task: load.task }));

const emphasised = (count) => (count ? h("strong", null, number(count)) : number(count));

export function Loads({ where, sources, hasSites }) {
  const [{ outcome = "", source = "" }, change] = useAddress();
  const filter = { ...where, source, outcome };
  const [offset, turn] = usePages(JSON.stringify(filter));
  const data = useData("api/loads", { ...filter, offset });
  const columns = [
    ["Started", (row) => h(When, { at: row.started_at })],
    ["Source", (row) => h(SourceOfLoad, { load: row })],
    ...(hasSites ? [["Site", (row) => h(Text, { text: row.site_id })]] : []),
    ["Outcome", (row) => h(Outcome, { load: row })],
    ["Rows", (row) => number(row.counts.rows), "number"],
    ["Created", (row) => number(row.counts.created), "number"],
    ["Rejected", (row) => emphasised(row.counts.rejected), "number"],
    ["Ambiguous", (row) => emphasised(row.counts.ambiguous), "number"],
    ["Failed", (row) => emphasised(row.counts.failed), "number"],
    ["Drafts", (row) => emphasised(row.counts.drafts), "number"],
    ["Stale", (row) => number(row.counts.stale), "number"],
    ["Took", (row) => duration(row.seconds), "number"],
  ];
  const filters = h(
    "div",
    { className: "filters" },
    h(Choice, {
      label: "Outcome",
      value: outcome,
      onChange: (value) => change({ outcome: value }),
      options: [
        ["", "all"],
        ["succeeded", "succeeded"],
        ["succeeded with findings", "succeeded with findings"],
        ["failed", "failed"],
        ["unfinished", "killed or running"],
        ["deferred", "deferred"],
      ],
    }),
    h(SourceChoice, { source, sources, onChange: change }),
  );
  return h(
    Section,
    { id: "loads", title: "Last loads", wide: true, intro: "One line per try, the latest first." },
    filters,
    h(
      Shown,
      { of: data, what: "loads", empty: outcome || source ? "No load matches these filters." : "No load has run yet." },
      (found) =>
        h(
          Fragment,
          null,
          h(Table, { caption: "Last loads", columns, rows: found.rows, keyOf: (row) => row.token }),
          h(Pages, { of: found, noun: "loads", onTurn: turn }),
        ),
    ),
  );
}

/** A choice of a source. One that the address names is selected, also if it is not in the list. */
export function SourceChoice({ source, sources, onChange }) {
  const names = source && !sources.includes(source) ? [source, ...sources] : sources;
  if (names.length < 2 && !source) return null;
  return h(Choice, {
    label: "Source",
    value: source,
    onChange: (value) => onChange({ source: value }),
    options: [["", "all"], ...names.map((one) => [one, one])],
  });
}

export function DocumentsOverTime({ where }) {
  const data = useData("api/documents", where);
  return h(
    Section,
    { id: "documents", title: "Documents over time", wide: true },
    h(
      Shown,
      {
        of: data,
        what: "documents",
        empty: "No document has been created yet.",
        isEmpty: (found) => !found.days.length,
      },
      (found) =>
        h(
          "div",
          { className: "charts" },
          h(Lines, {
            title: "Documents",
            unit: "known to the ledger, by UTC day",
            series: [
              {
                name: "documents",
                color: "var(--series-1)",
                points: found.days.map((one) => ({ at: one.day, value: one.documents })),
              },
            ],
          }),
        ),
    ),
  );
}

/** The errors of a load, as the task raised them. */
export const LoadError = ({ load }) =>
  load.error && h(Note, { kind: load.outcome === "failed" ? "bad" : "plain" }, h(Text, { text: load.error }));
