// What every view shares: Airflow's React, requests, and the states of data: loading, problem, error, empty.

import { moment, number, plural, utc } from "./format.mjs";

export const {
  createElement: h,
  Fragment,
  createContext,
  useCallback,
  useContext,
  useEffect,
  useId,
  useRef,
  useState,
} = globalThis.React;
export const { Link, useLocation, useNavigate } = globalThis.ReactRouterDOM;

// This module is {base URL of Airflow}/assistant/static/core.mjs.
const ROUTES = new URL("../", import.meta.url);
const AIRFLOW = new URL("../", ROUTES);
const NEW_TAB = { target: "_blank", rel: "noopener" };
// Characters of a text that are shown before its rest is opened, and of one that is not wrapped in a table.
const LONG_TEXT = 240;
const SHORT_TEXT = 24;
const textClass = (text) => (text.length > SHORT_TEXT ? "text" : "text short");

/**
 * The URL of one of our routes. Empty parameters are left out.
 *
 * `search` is after the #: `request` sends it as a header, because servers log URLs, and keys may be personal.
 */
export function routeUrl(path, { search = "", ...query } = {}) {
  const url = new URL(path, ROUTES);
  url.hash = encodeURIComponent(search);
  for (const [name, value] of Object.entries(query)) if (value || value === 0) url.searchParams.set(name, value);
  return url.href;
}

/** The URL of a link from the server, or null: a path below Airflow's base URL, or a web page. Scripts are no links. */
export function linkUrl(href) {
  if (!href) return null;
  if (/^https?:\/\//i.test(href)) return href;
  return /^\/(?!\/)/.test(href) ? new URL(href.slice(1), AIRFLOW).href : null;
}

/** An error that a person can understand. `status` is the HTTP status, 0 without a reply. */
export class RequestError extends Error {
  constructor(status, detail) {
    super(RequestError.sentence(status, detail));
    this.status = status;
  }

  static sentence(status, detail) {
    if (status === 0) return "The API server did not answer. Check the network, then try again.";
    if (status === 401) return "Your session has ended. Reload the page to log in again.";
    if (status === 403) return "You do not have the rights to see or do this. Ask an administrator of this Airflow.";
    if (status === 409 && typeof detail === "string") return detail;
    if (status === 404) return typeof detail === "string" && detail ? detail : "The API server does not have this.";
    return `The API server failed with status ${status}. Its log has the reason. Try again.`;
  }
}

/** Send a request and return the JSON of the reply, or raise a RequestError. */
export async function request(url, { signal, body } = {}) {
  const headers = { Accept: "application/json", ...(body ? { "Content-Type": "application/json" } : {}) };
  const search = new URL(url).hash.slice(1);
  if (search) headers["Assistant-Search"] = search;
  let reply;
  try {
    const content = body ? { method: "POST", body: JSON.stringify(body) } : {};
    reply = await fetch(url, { credentials: "same-origin", headers, signal, ...content });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new RequestError(0);
  }
  let json = null;
  try {
    json = await reply.json();
  } catch {
    // Reported below: a proxy's error page, for example.
  }
  if (reply.ok && json !== null) return json;
  throw new RequestError(reply.ok ? 502 : reply.status, json?.detail);
}

/** Increases when the viewer asks for fresh data, or has changed some. */
export const Refresh = createContext(0);

/**
 * Read a route.
 *
 * The last data stay until the next ones are there, so that a table does not jump when its page is turned.
 * `every`: milliseconds after which to read again, or null.
 */
export function useData(path, query, every = null) {
  const url = path === null ? null : routeUrl(path, query);
  const refresh = useContext(Refresh);
  const [round, setRound] = useState(0);
  const [state, setState] = useState({ data: null, error: null, url: null });
  useEffect(() => {
    if (url === null) return undefined;
    const abort = new AbortController();
    request(url, { signal: abort.signal }).then(
      (data) => setState({ data, error: null, url }),
      (error) => {
        // An answer to an earlier question must not look like an answer to this one.
        if (!abort.signal.aborted) setState((last) => ({ data: last.url === url ? last.data : null, error, url }));
      },
    );
    return () => abort.abort();
  }, [url, round, refresh]);
  useEffect(() => {
    if (every === null) return undefined;
    const timer = setInterval(() => setRound((last) => last + 1), every);
    return () => clearInterval(timer);
  }, [every]);
  const again = useCallback(() => setRound((last) => last + 1), []);
  return { ...state, isOld: state.url !== url, again };
}

// -- what is shown ---------------------------------------------------------------------------------

/** A sentence in a coloured box. `kind`: good, warning, bad or plain. */
export const Note = ({ kind = "plain", children, ...rest }) =>
  h("div", { className: `note ${kind}`, ...rest }, children);

export const Loading = ({ what }) => h("p", { className: "muted loading", role: "status" }, `Loading ${what} …`);

const ErrorNote = ({ error, again }) =>
  h(
    Note,
    { kind: "bad", role: "alert" },
    h("span", null, error.message),
    " ",
    h("button", { onClick: again }, "Try again"),
  );

/** Show data in whichever state they are. `empty`: what to say instead of no rows; `isEmpty`: if there are none. */
export function Shown({ of, what, empty, isEmpty = (data) => data.rows.length === 0, children }) {
  const error = of.error && h(ErrorNote, of);
  if (!of.data) return error || h(Loading, { what });
  const { problem } = of.data;
  const nothing = problem ? h(Note, null, problem) : h("p", { className: "muted" }, empty);
  return h("div", { "aria-busy": of.isOld }, error, isEmpty(of.data) ? nothing : children(of.data));
}

/** A part of a page with a heading that links can lead to. */
export const Section = ({ id, title, intro, children }) =>
  h(
    "section",
    { "aria-labelledby": `assistant-${id}` },
    h("h2", { id: `assistant-${id}`, tabIndex: -1 }, title),
    intro && h("p", { className: "muted intro" }, intro),
    children,
  );

/** A time in the viewer's time zone, with UTC in its title. */
export const When = ({ at }) => (at ? h("time", { dateTime: at, title: utc(at) }, moment(at)) : "–");

/** "dag.task", "dag.task [3]" of a mapped task, or "command line". */
const taskName = (task) =>
  task.dag_id ? `${task.dag_id}.${task.task_id}${task.map_index >= 0 ? ` [${task.map_index}]` : ""}` : "command line";

/** The tab of a task instance for the router. An iteration of a loop has none: its path is that of the DAG run. */
const tabPath = (task) => (task.region ? task.path : `${task.path}/plugin/assistant_task`);

/** A task instance as a link to its tab; its name only, if Airflow does not know it. */
export function TaskLink({ task }) {
  const name = taskName(task);
  const title = task.run_id ?? undefined;
  return h(
    "span",
    { className: textClass(name), dir: "auto" },
    task.path ? h(Link, { to: tabPath(task), title }, name) : h("span", { title }, name),
  );
}

/** A text from the data, of any length and in any script. The rest of a long one opens with a button. */
export function Text({ text }) {
  const [isOpen, setOpen] = useState(false);
  if (!text) return "–";
  const characters = text.length > LONG_TEXT ? [...text] : [];
  const isLong = characters.length > LONG_TEXT;
  return h(
    "span",
    { className: textClass(text), dir: "auto" },
    isLong && !isOpen ? `${characters.slice(0, LONG_TEXT).join("")} …` : text,
    isLong &&
      h(
        "button",
        { className: "more", "aria-expanded": isOpen, onClick: () => setOpen(!isOpen) },
        isOpen ? "Show less" : "Show all",
      ),
  );
}

/** A page of Airflow's server or of the web, in a new tab; its text only, if the browser could not open it. */
export function PageLink({ href, children }) {
  const url = linkUrl(href);
  return url ? h("a", { href: url, ...NEW_TAB }, children) : h("span", { title: href }, children);
}

/**
 * A table.
 *
 * `columns`: [heading, cell of a row, class], where the class `number` aligns to the right. `caption` names it for
 * screen readers. It can be scrolled with the keyboard.
 */
export const Table = ({ caption, columns, rows, keyOf = (row, at) => at }) =>
  h(
    "div",
    { className: "scroll", tabIndex: 0, role: "group", "aria-label": caption },
    h(
      "table",
      null,
      h("caption", { className: "hidden" }, caption),
      h(
        "thead",
        null,
        h(
          "tr",
          null,
          columns.map(([heading, , kind], at) => h("th", { key: at, scope: "col", className: kind }, heading)),
        ),
      ),
      h(
        "tbody",
        null,
        rows.map((row, at) =>
          h(
            "tr",
            { key: keyOf(row, at) },
            columns.map(([, cell, kind], column) => h("td", { key: column, className: kind }, cell(row))),
          ),
        ),
      ),
    ),
  );

/** A choice with a label. `options`: [value, text]. */
export function Choice({ label, value, options, onChange }) {
  const id = useId();
  return h(
    "span",
    { className: "choice" },
    h("label", { htmlFor: id }, label),
    h(
      "select",
      { id, value, onChange: (event) => onChange(event.target.value) },
      options.map(([one, text]) => h("option", { key: one, value: one }, text)),
    ),
  );
}

/** The line below a table that turns its pages. `noun`: what is counted, in the singular and the plural. */
export function Pages({ of, noun, onTurn }) {
  const { total, is_capped: isCapped, limit, offset, rows } = of;
  const last = offset + rows.length;
  if (total <= limit && offset === 0) return h("p", { className: "muted pages" }, plural(total, ...noun));
  const sum = `${number(total)}${isCapped ? "+" : ""}`;
  return h(
    "nav",
    { className: "pages", "aria-label": `Pages of ${noun[1]}` },
    h("button", { disabled: offset === 0, onClick: () => onTurn(Math.max(0, offset - limit)) }, "Previous"),
    h("span", { role: "status" }, `${number(offset + 1)} to ${number(last)} of ${sum} ${noun[1]}`),
    h("button", { disabled: last >= total, onClick: () => onTurn(offset + limit) }, "Next"),
  );
}

/** A tab's or page's outermost element, with its style sheet, which React waits for. */
export const Frame = ({ children, className = "", ...rest }) =>
  h(
    "div",
    { className: `assistant ${className}`, ...rest },
    h("link", { rel: "stylesheet", href: new URL("./assistant.css", import.meta.url).href, precedence: "default" }),
    children,
  );
