// The page "Assistant": three answers at the top, then the details in four views.

import {
  Choice,
  Frame,
  Fragment,
  h,
  headingId,
  Link,
  Loading,
  ErrorNote,
  Note,
  PageLink,
  Refresh,
  tabPath,
  useData,
  useEffect,
  useLocation,
  useState,
} from "./core.mjs";
import { loadAnswer, needsAnswer, worseAnswer } from "./answers.mjs";
import { MOST_COUNTED, total } from "./format.mjs";
import { DocumentsOverTime, Loads } from "./loads.mjs";
import { Evaluations, Limits, Statistics } from "./quality.mjs";
import { Ambiguous, OpenRequests, Superseded } from "./settle.mjs";

export const PAGE = "/plugin/assistant";
const VIEWS = [
  ["loads", "Loads"],
  ["settle", "To settle"],
  ["quality", "Quality"],
  ["usage", "Usage"],
];
// In which view a heading is.
const VIEW_OF = {
  loads: "loads",
  documents: "loads",
  ambiguous: "settle",
  superseded: "settle",
  requests: "settle",
  evaluations: "quality",
  statistics: "usage",
  limits: "usage",
};
const SIGNS = { good: "✓", bad: "✕", warning: "!", unknown: "?" };

/** A link to a part of the page, also from other pages of Airflow. */
export const PartLink = ({ part, children, ...rest }) =>
  h(Link, { to: `${PAGE}?view=${VIEW_OF[part]}`, state: { part }, ...rest }, children);

export function Page() {
  const [round, setRound] = useState(0);
  return h(
    Refresh.Provider,
    { value: round },
    h(Frame, { className: "page" }, h(Content, { onRefresh: () => setRound((last) => last + 1) })),
  );
}

function Content({ onRefresh }) {
  const [ledger, setLedger] = useState("");
  const [site, setSite] = useState("");
  const context = useData("api/context", { ledger });
  const summary = useData("api/summary", { ledger, site });
  const limits = useData("api/limits");
  const evaluations = useData("api/evaluations", { limit: 100 });
  const refused = [context, summary].find((one) => one.error && !one.data);
  if (refused) return h(Fragment, null, h("h1", null, "Assistant"), h(ErrorNote, refused));
  const { ledgers = [], sites = [], ledger: id = "" } = context.data ?? {};
  const sources = [...new Set(sites.filter((one) => !site || one.site_id === site).flatMap((one) => one.sources))];
  return h(
    Fragment,
    null,
    h(
      "header",
      null,
      h("h1", null, "Assistant"),
      h(
        "div",
        { className: "filters" },
        ledgers.length > 1 &&
          h(Choice, {
            label: "Ledger",
            value: id,
            onChange: (one) => {
              setSite("");
              setLedger(one);
            },
            options: ledgers.map((one) => [one.id, one.name]),
          }),
        sites.length > 1 &&
          h(Choice, {
            label: "Site",
            value: site,
            onChange: setSite,
            options: [["", "all sites"], ...sites.map((one) => [one.site_id, one.site_id])],
          }),
        h("button", { onClick: onRefresh }, "Refresh"),
      ),
    ),
    h(Answers, { summary: summary.data, limits: limits.data, evaluations }),
    h(Views, { summary: summary.data, ledger, site, sources, hasSites: sites.length > 1 && !site, limits, onRefresh }),
  );
}

function Answers({ summary, limits, evaluations }) {
  const worse = evaluations.data
    ? worseAnswer(evaluations.data)
    : evaluations.error && { kind: "unknown", word: "Unknown", text: evaluations.error.message, items: [] };
  return h(
    "div",
    { className: "answers" },
    h(Answer, { question: "Did the last loads work?", answer: summary && loadAnswer(summary) }),
    h(Answer, { question: "What needs me?", answer: summary && needsAnswer(summary, limits) }),
    h(Answer, { question: "Is the assistant worse than last week?", answer: worse }),
  );
}

function Answer({ question, answer }) {
  if (!answer) return h("section", { className: "card" }, h("h2", null, question), h(Loading));
  return h(
    "section",
    { className: `card ${answer.kind}` },
    h("h2", null, question),
    h(
      "p",
      { className: "word" },
      h("span", { className: "sign", "aria-hidden": true }, SIGNS[answer.kind]),
      answer.word,
    ),
    answer.text && h("p", null, answer.text),
    answer.items.length > 0 &&
      h(
        "ul",
        null,
        answer.items.map((item, at) => h("li", { key: at }, h(Item, { item }))),
      ),
  );
}

/** A line of an answer, with the link to what it is about. */
function Item({ item }) {
  const place = item.task?.path && (item.isLog ? item.task.path : tabPath(item.task));
  let text = item.text;
  if (item.to) text = h(PartLink, { part: item.to }, item.text);
  else if (place) text = h(Link, { to: place, title: item.task.run_id }, item.text);
  return h(
    Fragment,
    null,
    text,
    item.report && h(Fragment, null, " ", h(PageLink, { href: item.report }, "Report")),
    item.detail && h("span", { className: "muted detail" }, item.detail),
  );
}

function Views({ summary, ledger, site, sources, hasSites, limits, onRefresh }) {
  const location = useLocation();
  const asked = new URLSearchParams(location.search).get("view");
  const view = VIEWS.some(([name]) => name === asked) ? asked : "loads";
  const part = location.state?.part;
  useEffect(() => {
    const heading = part && document.getElementById(headingId(part));
    heading?.scrollIntoView({ block: "start" });
    heading?.focus({ preventScroll: true });
  }, [location.key, part]);
  const counts = summary && !summary.problem ? [summary.ambiguous ?? 0, summary.superseded ?? 0] : [0];
  const open = total(
    counts.reduce((left, right) => left + right),
    counts.some((one) => one >= MOST_COUNTED),
  );
  const common = { ledger, site };
  const content = {
    loads: () => h(Fragment, null, h(Loads, { ...common, sources, hasSites }), h(DocumentsOverTime, common)),
    settle: () =>
      h(
        Fragment,
        null,
        h(Ambiguous, { ...common, onSettled: onRefresh }),
        h(Superseded, { ...common, onSettled: onRefresh }),
        h(OpenRequests, common),
      ),
    quality: () => h(Evaluations),
    usage: () => h(Fragment, null, h(Limits, { data: limits }), h(Statistics, { site })),
  };
  // All sections of these views would show the same problem.
  const { problem = null } = { loads: summary, settle: summary, usage: limits.data }[view] ?? {};
  return h(
    Fragment,
    null,
    h(
      "nav",
      { className: "views", "aria-label": "Details" },
      VIEWS.map(([name, text]) =>
        h(
          Link,
          { key: name, to: `${PAGE}?view=${name}`, "aria-current": name === view ? "page" : undefined },
          text,
          name === "settle" &&
            open !== "0" &&
            h("span", { className: "count" }, open, h("span", { className: "hidden" }, " entries")),
        ),
      ),
    ),
    problem ? h(Note, null, problem.text) : h("div", { className: "view" }, content[view]()),
  );
}
