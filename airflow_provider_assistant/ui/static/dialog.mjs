// The confirmation of settling, which says what the next load will do.

import { Fragment, h, Note, request, routeUrl, Text, useEffect, useId, useRef, useState } from "./core.mjs";
import { number, plural } from "./format.mjs";

export const MARKS = { created: "created", "not-created": "not created", removed: "removed from the site" };

/** The text of a button: what it does to which entries. */
export const action = (mark, entries) => `Mark ${entries} as ${mark}`.replace("  ", " ");

/**
 * Show what settling would do, ask for confirmation, then settle.
 *
 * `body`: the request. `mark`: its outcome as a word. `onDone`: called with the server's text when something has
 * changed; `onClose`: without.
 */
export function SettleDialog({ body, mark = MARKS[body.outcome], onDone, onClose }) {
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
      const done = await request(routeUrl("api/settle"), { body: confirmed });
      onDone(done.text);
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

  const preview =
    reply &&
    h(
      Fragment,
      null,
      h("p", null, reply.text),
      reply.sites.length > 0 && h("p", null, "On ", h(Text, { text: reply.sites.join(", ") }), "."),
      h(
        "ul",
        { className: "items", tabIndex: 0, "aria-label": "What is settled" },
        reply.labels.map((label, at) => h("li", { key: at }, h(Text, { text: label }))),
      ),
      reply.settled > reply.labels.length &&
        h("p", { className: "muted" }, `and ${number(reply.settled - reply.labels.length)} more`),
    );
  return h(
    "dialog",
    { ref: dialog, "aria-labelledby": heading, onClose },
    h("h2", { id: heading }, `Mark as ${mark}?`),
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
      h(
        "button",
        { className: "primary", disabled: !reply?.settled || isSending, onClick: settle },
        action(mark, reply?.settled ? plural(reply.settled, "entry", "entries") : ""),
      ),
    ),
  );
}
