// The view of what waits for a person: the lists of entries, and settling them.

import {
  Fragment,
  h,
  Section,
  Shown,
  Table,
  TaskLink,
  Text,
  useData,
  useEffect,
  useRef,
  useState,
  When,
} from "./core.mjs";
import { Search, useAddress } from "./address.mjs";
import { action, MARKS, SettleDialog } from "./dialog.mjs";
import { age, total } from "./format.mjs";
import { SourceChoice } from "./loads.mjs";
import { Pages, usePages } from "./paging.mjs";

const KINDS = { qa: "Q&A document", text: "text", file: "file", chat: "chat request", rating: "rating" };
const NO_RIGHT = "To settle those of a DAG, you need the right to change its task instances, as for clearing a task.";
const NO_MATCH = "There is none that matches the filters.";
const NONE = "There are none.";

const KEY = ["Key", (row) => h(Text, { text: row.label })];
const KIND = ["Kind", (row) => KINDS[row.kind]];
const DOCUMENT = ["Document", (row) => h(Text, { text: row.document_id })];
const SENT = [
  "Sent",
  (row) => h("time", { dateTime: row.claimed_at, title: row.claimed_at }, `${age(row.age_seconds)} ago`),
];
const WHY = [
  "Why",
  (row) => h(Text, { text: row.error || (row.state === "claimed" && "The task ended before it saved the answer.") }),
];
const REMOVE = "Delete them on the site, then record it here.";
/** The lists: `which` at the server, and what is shown. `marks`: words for outcomes that mean something else here. */
const LISTS = [
  {
    which: "unresolved",
    title: "Ambiguous entries",
    noun: "ambiguous entries",
    intro: "These were sent, but the answer was lost, so nobody knows whether they were created.",
    how: "Look on the site, then mark them: the next load sends what was not created, and leaves the rest alone.",
    outcomes: ["created", "not-created"],
    empty: "There are none: the outcome of every request is known.",
    columns: [KEY, KIND, SENT, WHY],
  },
  {
    which: "doubled",
    title: "Possibly duplicated",
    noun: "possible duplicates",
    intro: "These exist, and a request whose answer was lost may have created them a second time.",
    how:
      "Look for a second one on the site and delete it, then mark them as existing once. If you deleted the document " +
      "that is named here, mark that one as removed.",
    outcomes: ["not-created", "removed"],
    marks: { "not-created": "existing once" },
    columns: [KEY, KIND, DOCUMENT, SENT],
  },
  {
    which: "superseded",
    title: "Superseded documents",
    noun: "superseded documents",
    intro: 'Their rows have changed since. A load with on_change="replace" deletes such documents itself.',
    how: REMOVE,
    outcomes: ["removed"],
    columns: [KEY, DOCUMENT],
  },
  {
    which: "stale",
    title: "Stale documents",
    noun: "stale documents",
    intro: 'Their rows are gone from the source. A load with on_missing="delete" deletes such documents itself.',
    how: REMOVE,
    outcomes: ["removed"],
    columns: [KEY, DOCUMENT, ["Gone since", (row) => h(When, { at: row.gone_at })]],
  },
  {
    which: "draft",
    title: "Documents not in use",
    noun: "unused documents",
    intro: "The service has stored these, and does not use them yet.",
    how: "Activate them on the site. If you delete them instead, record it here.",
    outcomes: ["removed"],
    columns: [KEY, DOCUMENT, ["Status", (row) => h(Text, { text: row.status })]],
  },
  {
    which: "open",
    title: "Open chat requests",
    noun: "chat requests",
    intro: "Submitted and not answered yet.",
    outcomes: [],
    empty: "No chat request waits for its answer.",
    columns: [
      ["Request", (row) => h(Text, { text: row.document_id })],
      ["Submitted", (row) => h(When, { at: row.claimed_at })],
      ["Waiting for", (row) => age(row.age_seconds)],
      ["Part of a chat batch", (row) => (row.is_batch ? "yes" : "no")],
    ],
  },
];
/** The lists whose entries a person settles. */
export const TO_SETTLE = LISTS.filter((list) => list.outcomes.length).map((list) => list.which);

/** The view of what waits for a person, with the filters of its lists. */
export function Settle({ where, sources, hasSites, onSettled }) {
  const [{ source = "", search = "" }, change] = useAddress();
  const filter = { ...where, source, search };
  return h(
    Fragment,
    null,
    h(
      "div",
      { className: "section wide" },
      h("p", { className: "muted intro" }, h(Scope, { where, hasSites })),
      h(
        "div",
        { className: "filters" },
        h(SourceChoice, { source, sources, onChange: change }),
        h(Search, { value: search, onChange: (text) => change({ search: text }) }),
        (source || search) && h("button", { onClick: () => change({ source: "", search: "" }) }, "Remove filters"),
      ),
    ),
    LISTS.map((list) => h(Entries, { key: list.which, list, filter, onSettled })),
  );
}

/** Which site the lists are of: what is settled there must not be that of another one unnoticed. */
function Scope({ where, hasSites }) {
  if (hasSites) return "Entries of all sites. Select a site above to see only its entries.";
  if (!where.site) return "Entries of the only site of this ledger.";
  const names = [where.site, where.service].filter(Boolean).join(", ");
  return h(Fragment, null, "Only entries of site ", h(Text, { text: names }), ".");
}

function Entries({ list, filter, onSettled }) {
  const { which, title, noun, intro, empty = NONE } = list;
  const [offset, turn] = usePages(JSON.stringify(filter));
  const data = useData(`api/entries/${which}`, { ...filter, offset });
  const [result, settled] = useResult(onSettled);
  return h(
    Section,
    { id: which, title, wide: true, intro },
    result,
    h(Shown, { of: data, what: noun, empty: filter.source || filter.search ? NO_MATCH : empty }, (found) =>
      h(Settleable, { key: JSON.stringify(filter), data: found, list, filter, onTurn: turn, onSettled: settled }),
    ),
  );
}

/** A table whose rows can be selected and settled. */
function Settleable({ data, list, filter, onTurn, onSettled }) {
  const { which, title, noun, how, outcomes, marks = {} } = list;
  const [chosen, setChosen] = useState(() => new Set());
  // Whether all entries that match are selected, also those of other pages.
  const [isAll, setAll] = useState(false);
  const [body, setBody] = useState(null);
  const settleable = data.rows.filter((row) => row.may_settle);
  const ids = settleable.map((row) => row.id).filter((id) => chosen.has(id));
  const toggle = (id) =>
    setChosen((last) => new Set(last.has(id) ? [...last].filter((one) => one !== id) : [...last, id]));
  const isPage = ids.length === settleable.length;
  const all = () => setChosen(isPage ? new Set() : new Set(settleable.map((row) => row.id)));
  const matching = total(data.total, data.is_capped);
  const bodyOf = (outcome) => ({ outcome, ...(isAll ? { matching: matchingOf(which, filter) } : { ids }) });
  const count = isAll ? `all ${matching}` : ids.length || "";
  const box = [
    "Select",
    (row) =>
      row.is_alive
        ? h("span", { className: "muted", title: "A task may be sending it right now." }, "in flight")
        : h("input", {
            type: "checkbox",
            "aria-label": `Select ${row.label}`,
            checked: isAll || chosen.has(row.id),
            disabled: !row.may_settle || isAll,
            onChange: () => toggle(row.id),
          }),
  ];
  const actions =
    settleable.length > 0 &&
    h(
      "div",
      { className: "actions", role: "group", "aria-label": `Settle ${noun}` },
      h(
        "button",
        { onClick: all, disabled: isAll },
        isPage ? "Select none" : `Select all ${settleable.length} on this page`,
      ),
      (data.total > data.rows.length || data.is_capped) &&
        h("button", { onClick: () => setAll(!isAll) }, isAll ? "Select none" : `Select all ${matching} that match`),
      outcomes.map((outcome) =>
        h(
          "button",
          {
            key: outcome,
            className: "primary",
            disabled: !isAll && !ids.length,
            onClick: () => setBody(bodyOf(outcome)),
          },
          action(marks[outcome] ?? MARKS[outcome], count),
        ),
      ),
    );
  const isRefused = data.rows.some((row) => row.outcomes.length && !row.may_settle && !row.is_alive);
  const columns = [
    ...(settleable.length ? [box] : []),
    ...list.columns,
    ["Site", (row) => h(Text, { text: row.site_id })],
    ["Source", (row) => h(Text, { text: row.source })],
    ["Task", (row) => h(TaskLink, { task: row.task })],
  ];
  return h(
    Fragment,
    null,
    settleable.length > 0 && h("p", { className: "muted intro" }, how),
    isRefused && h("p", { className: "muted intro" }, NO_RIGHT),
    actions,
    h(Table, { caption: title, columns, rows: data.rows, keyOf: (row) => row.id }),
    h(Pages, { of: data, noun, onTurn }),
    body &&
      h(SettleDialog, {
        body,
        mark: marks[body.outcome],
        onClose: () => setBody(null),
        onDone: (text) => {
          setBody(null);
          setChosen(new Set());
          setAll(false);
          onSettled(text);
        },
      }),
  );
}

/** All entries of a list that a filter matches, for a request. */
function matchingOf(which, { site, service, source, search }) {
  const filter = { site_id: site, service, source, label_part: search };
  return { which, ...Object.fromEntries(Object.entries(filter).filter(([, value]) => value)) };
}

/** Remembers the result of settling, and moves the focus to it: the button that had it may be gone. */
function useResult(onSettled) {
  const [text, setText] = useState("");
  const place = useRef(null);
  useEffect(() => {
    if (text) place.current.focus();
  }, [text]);
  const result = text && h("p", { ref: place, className: "note good", role: "status", tabIndex: -1 }, text);
  return [
    result,
    (said) => {
      setText(said);
      onSettled();
    },
  ];
}
