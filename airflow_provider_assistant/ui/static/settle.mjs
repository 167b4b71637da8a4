// What needs a person: entries of the ledger, and their settlement by a person who has looked at the site.

import {
  Choice,
  Fragment,
  h,
  Note,
  Pages,
  request,
  routeUrl,
  Section,
  Shown,
  Table,
  TaskLink,
  Text,
  useData,
  useEffect,
  useId,
  useRef,
  useState,
  When,
} from "./core.mjs";
import { number, plural } from "./format.mjs";
import { useOffset } from "./tries.mjs";

// Name of a list, and what a person does about its entries.
const LISTS = {
  unresolved: ["ambiguous", "Sent, and nobody knows whether it exists. Look on the site, then settle it."],
  doubled: ["possibly twice", "An earlier request may have created it as well. Look for a second one on the site."],
  superseded: ["superseded", "Its row has other content now. Delete the document on the site, then settle it."],
  stale: ["stale", "Its row is gone from the source. Delete the document on the site, then settle it."],
  draft: ["not in use", "The service does not use the document. Activate or delete it on the site."],
  open: ["open requests", "The service accepted the request; its answer has not been read. A retry reads it."],
};
// The server counts no further.
const MOST_COUNTED = 1000;
const total = (count = 0) => `${number(count)}${count === MOST_COUNTED ? "+" : ""}`;
const MARKS = { created: "created", "not-created": "not created", removed: "removed from the site" };

export function Entries({ where, address, change, refresh, only, maySettle }) {
  const { list = "", search = "" } = address;
  const [offset, setOffset] = useOffset(JSON.stringify([where, list, search]));
  const data = useData("api/entries", { ...where, which: list, search, offset });
  const [body, setBody] = useState(null);
  const [result, setResult] = useState("");
  const place = useRef(null);
  // The button that had the focus may be gone.
  useEffect(() => {
    if (result) place.current.focus();
  }, [result]);
  const counts = data.data?.lists ?? {};
  const which = list || data.data?.which || "unresolved";
  const options = Object.entries(LISTS).map(([name, [text]]) => [name, `${text} (${total(counts[name])})`]);
  const isQuiet = !Object.values(counts).some(Boolean);
  const empty = isQuiet ? "Nothing needs a person." : "No entry matches.";
  const done = (text) => {
    setBody(null);
    setResult(text);
    setOffset(0);
    refresh();
  };
  return h(
    Section,
    { id: "entries", title: "What needs a person" },
    result && h("p", { ref: place, className: "note good", role: "status", tabIndex: -1 }, result),
    h(
      "div",
      { className: "filters" },
      h(Choice, { label: "List", value: which, options, onChange: (value) => change({ list: value }) }),
      h(Search, { value: search, onChange: (value) => change({ search: value }) }),
    ),
    h(Shown, { of: data, what: "entries", empty }, (found) => [
      h("p", { key: "how", className: "muted intro" }, LISTS[found.which][1]),
      h(EntryTable, { key: `${found.which} ${found.offset}`, found, only, onSettle: setBody }),
      h(Pages, { key: "pages", of: found, noun: ["entry", "entries"], onTurn: setOffset }),
    ]),
    maySettle && h(RemovedDocuments, { only, onSettle: setBody }),
    body && h(SettleDialog, { body, onClose: () => setBody(null), onDone: done }),
  );
}

/** A field for the text that keys contain. It filters on Enter, or when it is left. */
function Search({ value, onChange }) {
  const id = useId();
  const field = useRef(null);
  const changed = () => field.current.value.trim() !== value && onChange(field.current.value.trim());
  // Back changes the value.
  useEffect(() => {
    field.current.value = value;
  }, [value]);
  const submitted = (event) => {
    event.preventDefault();
    changed();
  };
  return h(
    "form",
    { className: "choice", role: "search", onSubmit: submitted },
    h("label", { htmlFor: id }, "Key contains"),
    h("input", { id, ref: field, type: "search", maxLength: 200, onBlur: changed }),
  );
}

function EntryTable({ found, only, onSettle }) {
  const { rows } = found;
  const [chosen, setChosen] = useState([]);
  const open = rows.filter((row) => row.outcomes.length > 0);
  const keyOf = (row) => row.id.join(" ");
  // After a refresh, some of them may be gone.
  const selected = open.filter((row) => chosen.includes(keyOf(row)));
  const outcomes = Object.keys(MARKS).filter((mark) => open.some((row) => row.outcomes.includes(mark)));
  const toggle = (key, isChosen) => setChosen(isChosen ? [...chosen, key] : chosen.filter((one) => one !== key));
  const box = (row) =>
    row.outcomes.length > 0 &&
    h("input", {
      type: "checkbox",
      "aria-label": `Select ${row.label.slice(0, 200)}`,
      checked: chosen.includes(keyOf(row)),
      onChange: (event) => toggle(keyOf(row), event.target.checked),
    });
  const state = (row) => (row.is_alive ? "being sent now" : row.status || row.state);
  const columns = [
    ...(open.length > 0 ? [["Select", box]] : []),
    ["Key", (row) => h(Text, { text: row.label })],
    ["State", (row) => h(Text, { text: state(row) })],
    ["Sent", (row) => h(When, { at: row.claimed_at })],
    ...(found.which === "stale" ? [["Gone since", (row) => h(When, { at: row.gone_at })]] : []),
    ["Requests", (row) => number(row.requests), "number"],
    ["Id", (row) => h(Text, { text: row.document_id })],
    ["Error", (row) => h(Text, { text: row.error })],
    ["Kind", (row) => (row.is_batch ? "chat batch" : row.kind)],
    ["Task", (row) => h(TaskLink, row)],
    ["Source", (row) => h(Text, { text: row.source })],
    ...(only ? [] : [["Site", (row) => h(Text, { text: row.site_id })]]),
  ];
  const mark = (outcome) => {
    const ids = selected.filter((row) => row.outcomes.includes(outcome)).map((row) => row.id);
    const text = `Mark ${ids.length || ""} as ${MARKS[outcome]}`.replace("  ", " ");
    return h("button", { key: outcome, disabled: ids.length === 0, onClick: () => onSettle({ outcome, ids }) }, text);
  };
  const all = open.length === selected.length ? [] : open.map(keyOf);
  const actions = h(
    "div",
    { className: "actions" },
    h("button", { onClick: () => setChosen(all) }, all.length ? `Select all ${open.length} on this page` : "Select none"),
    outcomes.map(mark),
  );
  const refused = found.which !== "open" && "You may not settle these: a task is sending them, or you may not change their DAGs.";
  return h(
    Fragment,
    null,
    open.length > 0 ? actions : refused && h("p", { className: "muted intro" }, refused),
    h(Table, { caption: "What needs a person", columns, rows, keyOf }),
  );
}

/** A form for the ids of documents that a person has deleted on the site. */
function RemovedDocuments({ only, onSettle }) {
  const id = useId();
  const field = useRef(null);
  const submitted = (event) => {
    event.preventDefault();
    const ids = [...new Set(field.current.value.split(/[\s,]+/).filter(Boolean))];
    if (ids.length) onSettle({ outcome: "removed", document_ids: ids, site_id: only.site_id, service: only.service });
  };
  const form = h(
    "form",
    { onSubmit: submitted },
    h("label", { htmlFor: id }, "Ids of documents that you deleted on the site, one per line:"),
    h("textarea", { id, ref: field, rows: 4 }),
    h("button", null, "Mark these documents as removed"),
  );
  const hint = h("p", { className: "muted" }, "Select a site first.");
  return h("details", null, h("summary", null, "Settle documents by their ids"), only ? form : hint);
}

/**
 * Show what settling would do, ask for confirmation, then settle.
 *
 * `body`: the request. `onDone`: called with the server's text when something has changed; `onClose`: without.
 */
function SettleDialog({ body, onDone, onClose }) {
  const dialog = useRef(null);
  const heading = useId();
  const [reply, setReply] = useState(null);
  const [error, setError] = useState(null);
  const [isSending, setSending] = useState(false);
  const [round, setRound] = useState(0);
  useEffect(() => {
    if (!dialog.current.open) dialog.current.showModal();
    const abort = new AbortController();
    request(routeUrl("api/settle/preview"), { body, signal: abort.signal }).then(
      setReply,
      (trouble) => abort.signal.aborted || setError(trouble),
    );
    return () => abort.abort();
  }, [body, round]);

  async function settle() {
    setSending(true);
    setError(null);
    try {
      const confirmed = { ...body, confirmation: reply.confirmation };
      onDone((await request(routeUrl("api/settle"), { body: confirmed })).text);
    } catch (trouble) {
      setError(trouble);
      setSending(false);
      // The list is another one: show what would be settled now.
      if (trouble.status === 409) {
        setReply(null);
        setRound(round + 1);
      }
    }
  }

  const more = reply ? reply.settled - reply.labels.length : 0;
  const labels = reply?.labels.map((label, at) => h("li", { key: at }, h(Text, { text: label })));
  const preview =
    reply &&
    h(
      Fragment,
      null,
      h("p", null, reply.text),
      reply.sites.length > 0 && h("p", null, "On ", h(Text, { text: reply.sites.join(", ") }), "."),
      h("ul", { className: "items", tabIndex: 0, "aria-label": "What is settled" }, labels),
      more > 0 && h("p", { className: "muted" }, `and ${number(more)} more`),
    );
  const entries = reply?.settled ? plural(reply.settled, "entry", "entries") : "";
  const action = `Mark ${entries} as ${MARKS[body.outcome]}`.replace("  ", " ");
  return h(
    "dialog",
    { ref: dialog, "aria-labelledby": heading, onClose },
    h("h2", { id: heading }, `Mark as ${MARKS[body.outcome]}?`),
    h(
      "div",
      { "aria-live": "polite" },
      preview ?? (!error && h("p", { className: "muted" }, "Asking what the next load would do …")),
      error && h(Note, { kind: "bad" }, error.message),
    ),
    h(
      "div",
      { className: "actions" },
      // Closing the dialog gives the focus back to the button that opened it.
      h("button", { autoFocus: true, onClick: () => dialog.current.close() }, "Cancel"),
      h("button", { className: "primary", disabled: !reply?.settled || isSending, onClick: settle }, action),
    ),
  );
}
