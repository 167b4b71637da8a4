// The tries of tasks as a table, and the words for what a try did.

import { Choice, h, Pages, Section, Shown, Table, TaskLink, Text, useData, useEffect, useState, When } from "./core.mjs";
import { duration, number, percent, plural, words } from "./format.mjs";

export const KINDS = {
  load: "load",
  chat_batch: "chat batch",
  rating: "rating",
  evaluation: "evaluation",
  export: "export",
  warehouse: "warehouse",
  retention: "retention",
};
// Class and word of an outcome.
const OUTCOMES = {
  succeeded: ["good", "succeeded"],
  "succeeded with findings": ["warning", "with findings"],
  failed: ["bad", "failed"],
  deferred: ["plain", "deferred"],
  running: ["plain", "running"],
  unfinished: ["bad", "killed"],
};
// Outcomes of the rows of a task, in the order of the bar.
export const PARTS = {
  load: ["created", "unchanged", "skipped", "rejected", "ambiguous", "failed"],
  chat_batch: ["complete", "failed", "timed_out", "lost", "not_submitted"],
};
// What the counts of a try come to, in a few words.
const RESULTS = {
  evaluation: ({ pass_rate, verdict }) => (pass_rate === null ? verdict : `${verdict}, ${percent(pass_rate)} passed`),
  rating: ({ sent }) => `${number(sent)} sent`,
  export: ({ rows }) => plural(rows, "row"),
  warehouse: ({ rows }) => plural(rows, "row"),
};

export function Outcome({ outcome }) {
  const [kind, word] = OUTCOMES[outcome];
  return h("span", { className: `badge ${kind}` }, word);
}

function resultOf({ task_kind: kind, counts }) {
  if (Object.keys(counts).length === 0) return "–";
  const parts = (PARTS[kind] ?? []).filter((name) => counts[name]).map((name) => `${number(counts[name])} ${words(name)}`);
  return parts.join(", ") || RESULTS[kind]?.(counts) || "–";
}

/** The offset of a table's page. It begins again when what the table shows changes. */
export function useOffset(of) {
  const [offset, setOffset] = useState(0);
  useEffect(() => setOffset(0), [of]);
  return [offset, setOffset];
}

export function Tries({ where, address, change, only }) {
  const { kind = "", outcome = "" } = address;
  const query = { ...where, kind, outcome };
  const [offset, setOffset] = useOffset(JSON.stringify(query));
  const data = useData("api/tries", { ...query, offset });
  const isFiltered = Object.values(query).some(Boolean);
  const columns = [
    ["Started", (row) => h(When, { at: row.started_at })],
    ["Kind", (row) => KINDS[row.task_kind] ?? row.task_kind],
    ["Outcome", (row) => h(Outcome, row)],
    ["Result", (row) => h(Text, { text: resultOf(row) })],
    ["Error", (row) => h(Text, { text: row.error })],
    ["Task", (row) => h(TaskLink, row)],
    ["Source", (row) => h(Text, { text: row.source })],
    ...(only ? [] : [["Site", (row) => h(Text, { text: row.site_id })]]),
    ["Took", (row) => duration(row.seconds), "number"],
  ];
  const choice = (label, name, value, options) =>
    h(Choice, { label, value, options: [["", "all"], ...options], onChange: (one) => change({ [name]: one }) });
  const outcomes = Object.entries(OUTCOMES).filter(([name]) => name !== "running");
  return h(
    Section,
    { id: "tries", title: "Tries of tasks" },
    h(
      "div",
      { className: "filters" },
      choice("Kind", "kind", kind, Object.entries(KINDS)),
      choice("Outcome", "outcome", outcome, outcomes.map(([name, [, word]]) => [name, name === "unfinished" ? "without end" : word])),
      isFiltered && h("button", { onClick: () => change({ kind: "", outcome: "", source: "" }) }, "Remove filters"),
    ),
    h(Shown, { of: data, what: "tries", empty: isFiltered ? "No try matches." : "No task has run yet." }, (found) => [
      h(Table, { key: "table", caption: "Tries of tasks", columns, rows: found.rows, keyOf: (row) => row.token }),
      h(Pages, { key: "pages", of: found, noun: ["try", "tries"], onTurn: setOffset }),
    ]),
  );
}
