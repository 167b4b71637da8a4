// The panel of Airflow's dashboard: did the last loads work, and three numbers. Each is a link to its part of the page.

import { ErrorNote, Frame, h, Loading, useData } from "./core.mjs";
import { loadAnswer } from "./answers.mjs";
import { MOST_COUNTED, number, percent, total } from "./format.mjs";
import { PartLink } from "./address.mjs";

export function Panel() {
  const data = useData("api/summary");
  const content = data.data ? h(Numbers, { summary: data.data }) : data.error ? h(ErrorNote, data) : h(Loading);
  return h(
    Frame,
    { className: "panel", role: "region", "aria-label": "Assistant" },
    h("h2", null, "Assistant"),
    content,
  );
}

/** [part of the page, number, its name, kind] */
export function numbers(summary) {
  const gate = summary.gates[0];
  const throttled = summary.requests_day ? summary.throttled_day / summary.requests_day : null;
  const { ambiguous } = summary;
  const loads = loadAnswer(summary);
  return [
    ["loads", loads.word, summary.problem ? "whether the last loads worked" : loads.text, loads.kind],
    [
      "ambiguous",
      ambiguous === null ? "–" : total(ambiguous, ambiguous >= MOST_COUNTED),
      ambiguous === 1 ? "ambiguous entry" : "ambiguous entries",
      ambiguous ? "warning" : "plain",
    ],
    [
      "evaluations",
      gate ? (gate.verdict === "none" ? percent(gate.pass_rate) : gate.verdict) : "none",
      gate ? `last evaluation, ${gate.name}` : "no evaluation yet",
      gate?.verdict === "failed" ? "bad" : "plain",
    ],
    [
      "loads",
      summary.requests_day === null ? "–" : summary.requests_day === 0 ? "no requests" : percent(throttled),
      summary.requests_day ? `of ${number(summary.requests_day)} requests got 429 in a day` : "in a day",
      throttled > 0.05 ? "warning" : "plain",
    ],
  ];
}

const Numbers = ({ summary }) =>
  h(
    "div",
    null,
    h(
      "div",
      { className: "numbers" },
      numbers(summary).map(([part, value, name, kind]) =>
        h(PartLink, { key: part, part, className: `figure ${kind}` }, h("strong", null, value), h("span", null, name)),
      ),
    ),
    summary.problem && h("p", { className: "muted" }, summary.problem.text),
  );
