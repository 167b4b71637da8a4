// The confirmation of settling, which says what the next load will do.

import { Fragment, h, Note, request, routeUrl, Text, useEffect, useId, useRef, useState } from "./core.mjs";
import { number, plural } from "./format.mjs";

// Items of a preview that are listed; the sentence above them counts all.
const LISTED = 10;
export const MARKS = { created: "created", not_created: "not created", deleted: "deleted on the site" };
// The outcome "delete" changes the service, all others only the ledger.
export const DELETE = "delete";

/** The text of a button: what it does to which entries. */
export function action(outcome, entries) {
  const text = outcome === DELETE ? `Delete ${entries} at the service` : `Mark ${entries} as ${MARKS[outcome]}`;
  return text.replace("  ", " ");
}

/** What a request that settles a whole list repeats of the preview, so that another list is refused. */
const confirmed = (reply) => (reply.confirmation ? { confirmation: reply.confirmation } : {});

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
  const [round, setRound] = useState(0);
  const isDelete = body.outcome === DELETE;
  const route = isDelete ? "api/delete" : "api/settle";
  useEffect(() => {
    if (!dialog.current.open) dialog.current.showModal();
    const abort = new AbortController();
    request(routeUrl(`${route}/preview`), { body, signal: abort.signal }).then(
      setReply,
      (trouble) => abort.signal.aborted || setError(trouble),
    );
    return () => abort.abort();
  }, [body, route, round]);

  async function settle() {
    setSending(true);
    setError(null);
    try {
      const done = await request(routeUrl(route), { body: { ...body, ...confirmed(reply) } });
      if (isDelete && done.refused) {
        setReply(done);
        setSending(false);
      } else {
        onDone(done.text);
      }
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

  // Some were deleted and others not: the dialog stays open to show why.
  const isDone = reply?.is_preview === false;
  // A reply about a whole list has the first items only.
  const count = Math.max(reply?.items.length ?? 0, reply?.settled ?? 0);
  const more = count - Math.min(LISTED, reply?.items.length ?? 0);
  const preview =
    reply &&
    h(
      Fragment,
      null,
      h("p", null, reply.text),
      reply.sites?.length > 0 && h("p", null, "On ", h(Text, { text: reply.sites.join(", ") }), "."),
      h(
        "ul",
        { className: "items", tabIndex: 0, "aria-label": "What happens to each" },
        reply.items
          .slice(0, LISTED)
          .map((item, at) =>
            h("li", { key: at }, h("strong", null, item.name), item.accepted ? ": " : " stays as it is: ", item.text),
          ),
      ),
      more > 0 && h("p", { className: "muted" }, `and ${number(more)} more`),
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
