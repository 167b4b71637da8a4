// Settling: the confirmation, which says what the next load will do, and the tables of what can be settled.

import {
  Fragment,
  h,
  Note,
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
import { age, plural } from "./format.mjs";
import { Pages, usePages } from "./paging.mjs";

// Items of a preview that are listed; the sentence above them counts all.
const LISTED = 10;
const KINDS = { document: "document", chat_request: "chat request", rating: "rating" };
export const MARKS = { created: "created", not_created: "not created", deleted: "deleted on the site" };
const NO_RIGHT = "To settle those of a DAG, you need the right to change its task instances, as for clearing a task.";
// The outcome "delete" changes the service, all others only the ledger.
const DELETE = "delete";

/** The text of a button: what it does to which entries. */
function action(outcome, entries) {
  const text = outcome === DELETE ? `Delete ${entries} at the service` : `Mark ${entries} as ${MARKS[outcome]}`;
  return text.replace("  ", " ");
}

/**
 * Ask for confirmation, then settle, or delete at the service.
 *
 * `body`: the request. `onDone`: called with the server's sentence when something has changed; `onClose`: without.
 */
export function SettleDialog({ body, onDone, onClose }) {
  const dialog = useRef(null);
  const heading = useId();
  const [reply, setReply] = useState(null);
  const [error, setError] = useState(null);
  const [isSending, setSending] = useState(false);
  const isDelete = body.outcome === DELETE;
  const route = isDelete ? "api/delete" : "api/settle";
  useEffect(() => {
    dialog.current.showModal();
    const abort = new AbortController();
    request(routeUrl(`${route}/preview`), { body, signal: abort.signal }).then(
      setReply,
      (trouble) => abort.signal.aborted || setError(trouble),
    );
    return () => abort.abort();
  }, [body, route]);

  async function settle() {
    setSending(true);
    setError(null);
    try {
      const done = await request(routeUrl(route), { body });
      if (isDelete && done.refused) {
        setReply(done);
        setSending(false);
      } else {
        onDone(done.text);
      }
    } catch (trouble) {
      setError(trouble);
      setSending(false);
    }
  }

  // Some were deleted and others not: the dialog stays open to show why.
  const isDone = reply?.is_preview === false;
  const preview =
    reply &&
    h(
      Fragment,
      null,
      h("p", null, reply.text),
      h(
        "ul",
        { className: "items", tabIndex: 0, "aria-label": "What happens to each" },
        reply.items
          .slice(0, LISTED)
          .map((item, at) =>
            h("li", { key: at }, h("strong", null, item.name), item.accepted ? ": " : " stays as it is: ", item.text),
          ),
      ),
      reply.items.length > LISTED &&
        h("p", { className: "muted" }, `and ${plural(reply.items.length - LISTED, "more", "more")}`),
    );
  return h(
    "dialog",
    { ref: dialog, "aria-labelledby": heading, onClose: isDone ? () => onDone(reply.text) : onClose },
    h("h2", { id: heading }, isDelete ? "Delete at the service?" : `Mark as ${MARKS[body.outcome]}?`),
    h(
      "div",
      { "aria-live": "polite" },
      preview ??
        (error
          ? null
          : h(
              "p",
              { className: "muted" },
              isDelete ? "Asking what can be deleted …" : "Asking what the next load would do …",
            )),
      error && h(Note, { kind: "bad" }, error.message),
    ),
    h(
      "div",
      { className: "actions" },
      // Closing the dialog gives the focus back to the button that opened it.
      h("button", { autoFocus: true, onClick: () => dialog.current.close() }, isDone ? "Close" : "Cancel"),
      h(
        "button",
        { className: "primary", disabled: !reply?.settled || isDone || isSending, onClick: settle },
        action(body.outcome, reply?.settled ? plural(reply.settled, "entry", "entries") : ""),
      ),
    ),
  );
}

/** A table whose rows can be selected and settled. `outcomes`: what they can be marked as; `how`: how to do it. */
function Settleable({ data, caption, columns, outcomes, how, ledger, noun, onTurn, onSettled }) {
  const [chosen, setChosen] = useState(() => new Set());
  const [body, setBody] = useState(null);
  const open = data.rows.filter((row) => row.may_settle && !row.may_be_under_way);
  const ids = open.map((row) => row.id).filter((id) => chosen.has(id));
  const toggle = (id) =>
    setChosen((last) => new Set(last.has(id) ? [...last].filter((one) => one !== id) : [...last, id]));
  const all = () => setChosen(ids.length === open.length ? new Set() : new Set(open.map((row) => row.id)));
  const box = [
    "Select",
    (row) =>
      row.may_be_under_way
        ? h("span", { className: "muted", title: "A task may be sending it right now." }, "in flight")
        : h("input", {
            type: "checkbox",
            "aria-label": `Select ${row.label}`,
            checked: chosen.has(row.id),
            disabled: !row.may_settle,
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
        { onClick: all },
        ids.length === open.length ? "Select none" : `Select all ${open.length} on this page`,
      ),
      outcomes.map((outcome) =>
        h(
          "button",
          {
            key: outcome,
            className: "primary",
            disabled: !ids.length,
            onClick: () => setBody({ ledger, outcome, ids }),
          },
          action(outcome, ids.length || ""),
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
          onSettled(text);
        },
      }),
  );
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

export function Ambiguous({ ledger, site, onSettled }) {
  const [offset, turn] = usePages(`${ledger} ${site}`);
  const data = useData("api/ambiguous", { ledger, site, offset });
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
  return h(
    Section,
    {
      id: "ambiguous",
      title: "Ambiguous entries",
      wide: true,
      intro: "These were sent, but the answer was lost, so nobody knows whether they were created.",
    },
    result,
    h(
      Shown,
      { of: data, what: "ambiguous entries", empty: "There are none: the outcome of every request is known." },
      (found) =>
        h(Settleable, {
          data: found,
          caption: "Ambiguous entries",
          how: "Look on the site, then mark them: the next load sends what was not created, and leaves the rest alone.",
          columns,
          outcomes: ["created", "not_created"],
          ledger,
          noun: "entries",
          onTurn: turn,
          onSettled: settled,
        }),
    ),
  );
}

export function Superseded({ ledger, site, onSettled }) {
  const [offset, turn] = usePages(`${ledger} ${site}`);
  const data = useData("api/superseded", { ledger, site, offset });
  const [result, settled] = useResult(onSettled);
  const columns = [
    ["Key", (row) => h(Text, { text: row.label })],
    ["Site", (row) => h(Text, { text: row.site_id })],
    ["Source", (row) => h(Text, { text: row.source })],
    ["Older documents", (row) => h(Text, { text: row.document_ids.join(", ") })],
    ["Task", (row) => h(TaskLink, { task: row.task })],
  ];
  return h(
    Section,
    {
      id: "superseded",
      title: "Superseded documents",
      wide: true,
      intro: "Their rows have changed since, and newer documents exist.",
    },
    result,
    h(Shown, { of: data, what: "superseded documents", empty: "There are none." }, (found) =>
      h(Settleable, {
        data: found,
        caption: "Superseded documents",
        how:
          "Delete them at the service here, if the connection of the site manages documents, or delete them on the " +
          "site and then record it here.",
        columns,
        outcomes: [DELETE, "deleted"],
        ledger,
        noun: "keys",
        onTurn: turn,
        onSettled: settled,
      }),
    ),
  );
}

export function OpenRequests({ ledger, site }) {
  const [offset, turn] = usePages(`${ledger} ${site}`);
  const data = useData("api/requests", { ledger, site, offset });
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
