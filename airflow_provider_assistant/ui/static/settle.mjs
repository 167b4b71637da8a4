// The view of what waits for a person: the tables of what can be settled.

import {
  Choice,
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
import { action, DELETE, SettleDialog } from "./dialog.mjs";
import { age, total } from "./format.mjs";
import { SourceChoice } from "./loads.mjs";
import { Pages, usePages } from "./paging.mjs";

const KINDS = { document: "document", chat_request: "chat request", rating: "rating" };
const NO_RIGHT = "To settle those of a DAG, you need the right to change its task instances, as for clearing a task.";

/**
 * A table whose rows can be selected and settled.
 *
 * `outcomes`: what they can be marked as; `how`: how to do it; `which`: the list on the server; `filter`: what it shows.
 */
function Settleable({ data, caption, columns, outcomes, how, which, filter, noun, onTurn, onSettled }) {
  const { ledger } = filter;
  const [chosen, setChosen] = useState(() => new Set());
  // Whether all entries that match are selected, also those of other pages.
  const [isAll, setAll] = useState(false);
  const [body, setBody] = useState(null);
  const open = data.rows.filter((row) => row.may_settle && !row.may_be_under_way);
  const ids = open.map((row) => row.id).filter((id) => chosen.has(id));
  const toggle = (id) =>
    setChosen((last) => new Set(last.has(id) ? [...last].filter((one) => one !== id) : [...last, id]));
  const all = () => setChosen(ids.length === open.length ? new Set() : new Set(open.map((row) => row.id)));
  const matching = total(data.total, data.is_capped);
  const bodyOf = (outcome) => ({ ledger, outcome, ...(isAll ? { matching: matchingOf(which, filter) } : { ids }) });
  const count = isAll ? `all ${matching}` : ids.length || "";
  const box = [
    "Select",
    (row) =>
      row.may_be_under_way
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
    open.length > 0 &&
    h(
      "div",
      { className: "actions", role: "group", "aria-label": `Settle ${noun}` },
      h(
        "button",
        { onClick: all, disabled: isAll },
        ids.length === open.length ? "Select none" : `Select all ${open.length} on this page`,
      ),
      (data.total > data.rows.length || data.is_capped) &&
        h("button", { onClick: () => setAll(!isAll) }, isAll ? "Select none" : `Select all ${matching} that match`),
      outcomes.map((outcome) =>
        h(
          "button",
          {
            key: outcome,
            className: "primary",
            // A request to the service deletes few documents.
            disabled: isAll ? outcome === DELETE : !ids.length,
            onClick: () => setBody(bodyOf(outcome)),
          },
          action(outcome, count),
        ),
      ),
    );
  const isRefused = data.rows.some((row) => !row.may_settle && !row.may_be_under_way);
  return h(
    Fragment,
    null,
    open.length > 0 && h("p", { className: "muted intro" }, how),
    isRefused && h("p", { className: "muted intro" }, NO_RIGHT),
    actions,
    h(Table, { caption, columns: open.length ? [box, ...columns] : columns, rows: data.rows, keyOf: (row) => row.id }),
    h(Pages, { of: data, noun, onTurn }),
    body &&
      h(SettleDialog, {
        body,
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
function matchingOf(which, { site, service, tenant, source, search }) {
  const filter = { site_id: site, service, tenant_id: tenant, source, label_part: search };
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
    h(Ambiguous, { filter, onSettled }),
    h(Outdated, { filter, onSettled, ...SUPERSEDED }),
    h(Outdated, { filter, onSettled, ...STALE }),
    h(OpenRequests, { filter }),
  );
}

/** Which site the lists are of: what is settled there must not be that of another one unnoticed. */
function Scope({ where, hasSites }) {
  if (hasSites) return "Entries of all sites. Select a site above to see only its entries.";
  if (!where.site) return "Entries of the only site of this ledger.";
  const names = [where.site, where.tenant, where.service].filter(Boolean).join(", ");
  return h(Fragment, null, "Only entries of site ", h(Text, { text: names }), ".");
}

function Ambiguous({ filter, onSettled }) {
  const [{ kind = "" }, change] = useAddress();
  const [offset, turn] = usePages(JSON.stringify([filter, kind]));
  const data = useData("api/ambiguous", { ...filter, kind, offset });
  const [result, settled] = useResult(onSettled);
  const columns = [
    ["Key", (row) => h(Text, { text: row.label })],
    ["Kind", (row) => KINDS[row.kind]],
    ["Site", (row) => h(Text, { text: row.site_id })],
    ["Source", (row) => h(Text, { text: row.source })],
    ["Sent", (row) => h("time", { dateTime: row.claimed_at, title: row.claimed_at }, `${age(row.age_seconds)} ago`)],
    [
      "Why",
      (row) =>
        h(Text, { text: row.error || (row.outcome === "claimed" && "The task ended before it saved the answer.") }),
    ],
    ["Task", (row) => h(TaskLink, { task: row.task })],
  ];
  const isFiltered = kind || filter.source || filter.search;
  return h(
    Section,
    {
      id: "ambiguous",
      title: "Ambiguous entries",
      wide: true,
      intro: "These were sent, but the answer was lost, so nobody knows whether they were created.",
    },
    result,
    (kind || data.data?.total > 0) &&
      h(
        "div",
        { className: "filters" },
        h(Choice, {
          label: "Kind",
          value: kind,
          onChange: (value) => change({ kind: value }),
          options: [["", "all"], ...Object.entries(KINDS)],
        }),
      ),
    h(
      Shown,
      {
        of: data,
        what: "ambiguous entries",
        empty: isFiltered ? NO_MATCH : "There are none: the outcome of every request is known.",
      },
      (found) =>
        h(Settleable, {
          key: JSON.stringify([filter, kind]),
          data: found,
          caption: "Ambiguous entries",
          how: "Look on the site, then mark them: the next load sends what was not created, and leaves the rest alone.",
          columns,
          outcomes: ["created", "not_created"],
          which: kind || "ambiguous",
          filter,
          noun: "entries",
          onTurn: turn,
          onSettled: settled,
        }),
    ),
  );
}

const NO_MATCH = "There is none that matches the filters.";
const SUPERSEDED = {
  which: "superseded",
  title: "Superseded documents",
  intro: "Their rows have changed since, and newer documents exist.",
  how:
    "Delete them at the service here, if the connection of the site manages documents, or delete them on the site " +
    "and then record it here.",
  noun: "keys",
  outcomes: [DELETE, "deleted"],
  documents: "Older documents",
};
const STALE = {
  which: "stale",
  title: "Stale documents",
  intro: "Their rows are gone from the source. A load with on_missing=\"delete\" deletes such documents itself.",
  how: "Delete them on the site, then record it here.",
  noun: "documents",
  outcomes: ["deleted"],
  documents: "Document",
  gone: [["Gone since", (row) => h(When, { at: row.stale_at })]],
};

/** Documents that are on the site and should not be. */
function Outdated({ filter, onSettled, which, title, intro, how, noun, outcomes, documents, gone = [] }) {
  const [offset, turn] = usePages(JSON.stringify(filter));
  const data = useData(`api/${which}`, { ...filter, offset });
  const [result, settled] = useResult(onSettled);
  const columns = [
    ["Key", (row) => h(Text, { text: row.label })],
    ["Site", (row) => h(Text, { text: row.site_id })],
    ["Source", (row) => h(Text, { text: row.source })],
    [documents, (row) => h(Text, { text: row.document_ids.join(", ") })],
    ...gone,
    ["Task", (row) => h(TaskLink, { task: row.task })],
  ];
  return h(
    Section,
    { id: which, title, wide: true, intro },
    result,
    h(
      Shown,
      { of: data, what: title.toLowerCase(), empty: filter.source || filter.search ? NO_MATCH : "There are none." },
      (found) =>
        h(Settleable, {
          key: JSON.stringify(filter),
          data: found,
          caption: title,
          how,
          columns,
          outcomes,
          which,
          filter,
          noun,
          onTurn: turn,
          onSettled: settled,
        }),
    ),
  );
}

function OpenRequests({ filter }) {
  const [offset, turn] = usePages(JSON.stringify(filter));
  const data = useData("api/requests", { ...filter, offset });
  const columns = [
    ["Request", (row) => h(Text, { text: row.request_id })],
    ["Site", (row) => h(Text, { text: row.site_id })],
    ["Submitted", (row) => h(When, { at: row.submitted_at })],
    ["Waiting for", (row) => age(row.age_seconds)],
    ["Part of a chat batch", (row) => (row.is_batch ? "yes" : "no")],
    ["Task", (row) => h(TaskLink, { task: row.task })],
  ];
  return h(
    Section,
    {
      id: "requests",
      title: "Open chat requests",
      wide: true,
      intro: "Submitted in the last seven days and not answered yet.",
    },
    h(Shown, { of: data, what: "chat requests", empty: "No chat request waits for its answer." }, (found) =>
      h(
        Fragment,
        null,
        h(Table, { caption: "Open chat requests", columns, rows: found.rows }),
        h(Pages, { of: found, noun: "requests", onTurn: turn }),
      ),
    ),
  );
}
