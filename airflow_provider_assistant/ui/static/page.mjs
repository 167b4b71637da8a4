// The page "Assistant": three answers at the top, then the details in three views.

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
import { PartLink, siteChoices, useAddress, ViewLink, whereOf } from "./address.mjs";
import { loadAnswer, needsAnswer, worseAnswer } from "./answers.mjs";
import { MOST_COUNTED, total } from "./format.mjs";
import { DocumentsOverTime, Loads } from "./loads.mjs";
import { Evaluations } from "./quality.mjs";
import { Settle, TO_SETTLE } from "./settle.mjs";

const VIEWS = [
  ["loads", "Loads"],
  ["settle", "To settle"],
  ["quality", "Quality"],
];
const SIGNS = { good: "✓", bad: "✕", warning: "!", unknown: "?" };

export function Page() {
  const [round, setRound] = useState(0);
  return h(
    Refresh.Provider,
    { value: round },
    h(Frame, { className: "page" }, h(Content, { onRefresh: () => setRound((last) => last + 1) })),
  );
}

function Content({ onRefresh }) {
  const [address, change] = useAddress();
  const where = whereOf(address);
  const context = useData("api/context");
  const summary = useData("api/summary", where);
  const evaluations = useData("api/evaluations", { ...where, limit: 100 });
  const refused = [context, summary].find((one) => one.error && !one.data);
  if (refused) return h(Fragment, null, h("h1", null, "Assistant"), h(ErrorNote, refused));
  const { sites = [] } = context.data ?? {};
  const choices = siteChoices(sites, where);
  const isSelected = (one) => !where.site || choices.parametersOf(choices.value).site === one.site_id;
  const sources = [...new Set(sites.filter(isSelected).flatMap((one) => one.sources))];
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
        (sites.length > 1 || where.site) &&
          h(Choice, {
            label: "Site",
            value: choices.value,
            onChange: (value) => change({ ...choices.parametersOf(value), source: "" }),
            options: choices.options,
          }),
        h("button", { onClick: onRefresh }, "Refresh"),
      ),
    ),
    h(Answers, { summary: summary.data, evaluations }),
    h(Views, {
      summary: summary.data,
      where,
      sources,
      hasSites: sites.length > 1 && !where.site,
      onRefresh,
    }),
  );
}

function Answers({ summary, evaluations }) {
  const worse = evaluations.data
    ? worseAnswer(evaluations.data)
    : evaluations.error && { kind: "unknown", word: "Unknown", text: evaluations.error.message, items: [] };
  return h(
    "div",
    { className: "answers" },
    h(Answer, { question: "Did the last loads work?", answer: summary && loadAnswer(summary) }),
    h(Answer, { question: "What needs me?", answer: summary && needsAnswer(summary) }),
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

/** Scroll to a part while the data that come move it, until all are there or the viewer moves the page. */
function useScrollTo(part, key) {
  useEffect(() => {
    const heading = part && document.getElementById(headingId(part));
    if (!heading) return undefined;
    const page = heading.closest(".assistant");
    const stopped = new AbortController();
    const observer = new ResizeObserver(() => {
      heading.scrollIntoView({ block: "start" });
      if (!page.querySelector(".loading")) stopped.abort();
    });
    stopped.signal.addEventListener("abort", () => observer.disconnect());
    for (const event of ["wheel", "touchmove", "keydown", "pointerdown"])
      addEventListener(event, () => stopped.abort(), { signal: stopped.signal, passive: true });
    heading.focus({ preventScroll: true });
    observer.observe(page);
    return () => stopped.abort();
  }, [part, key]);
}

function Views({ summary, where, sources, hasSites, onRefresh }) {
  const location = useLocation();
  const [address] = useAddress();
  const view = VIEWS.some(([name]) => name === address.view) ? address.view : "loads";
  useScrollTo(location.state?.part, location.key);
  const counts = TO_SETTLE.map((name) => summary?.lists[name] ?? 0);
  const open = total(
    counts.reduce((left, right) => left + right, 0),
    counts.some((one) => one >= MOST_COUNTED),
  );
  const content = {
    loads: () => h(Fragment, null, h(Loads, { where, sources, hasSites }), h(DocumentsOverTime, { where })),
    settle: () => h(Settle, { where, sources, hasSites, onSettled: onRefresh }),
    quality: () => h(Evaluations, { where, hasSites }),
  };
  // All sections of these views would show the same problem.
  const { problem = null } = { loads: summary, settle: summary }[view] ?? {};
  return h(
    Fragment,
    null,
    h(
      "nav",
      { className: "views", "aria-label": "Details" },
      VIEWS.map(([name, text]) =>
        h(
          ViewLink,
          { key: name, view: name, "aria-current": name === view ? "page" : undefined },
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
