// Quality: evaluations, from the lake.

import {
  Choice,
  Fragment,
  h,
  PageLink,
  Section,
  Shown,
  Table,
  TaskLink,
  Text,
  useData,
  When,
} from "./core.mjs";
import { useAddress } from "./address.mjs";
import { Lines } from "./charts.mjs";
import { number, percent } from "./format.mjs";

const COLORS = [
  "var(--series-1)",
  "var(--series-2)",
  "var(--series-3)",
  "var(--series-4)",
  "var(--series-5)",
  "var(--series-6)",
];
const VERDICTS = {
  passed: ["good", "passed"],
  failed: ["bad", "failed"],
  worse: ["bad", "worse"],
  none: ["plain", "no gate"],
};
// Lines of one chart that can still be told apart.
const MOST_LINES = 4;

/** The verdict of an evaluation as a word. */
export function VerdictBadge({ verdict }) {
  const [kind, word] = VERDICTS[verdict] ?? ["plain", verdict];
  return h("span", { className: `badge ${kind}` }, word);
}

/** Evaluations over time, and the last ones as a table. */
export function Evaluations({ where, hasSites }) {
  const [{ evaluation: name = "" }, change] = useAddress();
  const data = useData("api/evaluations", { ...where, name, limit: 100 });
  const scope = where.site ? `Only those whose answers are of site ${where.site}.` : "";
  return h(
    Section,
    {
      id: "evaluations",
      title: "Evaluations",
      wide: true,
      intro: `The same questions, asked again and again: is the assistant getting worse? ${scope}`,
    },
    h(
      Shown,
      {
        of: data,
        what: "evaluations",
        empty: "The lake has no evaluation. Add an AssistantEvaluateOperator to a DAG.",
      },
      (found) => {
        const names =
          found.names.length > 1 &&
          h(
            "div",
            { className: "filters" },
            h(Choice, {
              label: "Evaluation",
              value: name || found.rows.at(-1).name,
              onChange: (evaluation) => change({ evaluation }),
              options: found.names.map((one) => [one, one]),
            }),
          );
        const rows = found.rows.filter((one) => one.name === (name || found.rows.at(-1).name));
        return h(
          Fragment,
          null,
          names,
          h(Trend, { rows }),
          h(LatestFailure, { evaluation: rows.at(-1) }),
          h(EvaluationTable, { hasSites, rows: [...rows].reverse().slice(0, 15) }),
        );
      },
    ),
  );
}

function Trend({ rows }) {
  const rates = rows.filter((one) => one.pass_rate !== null);
  const rate = (one) => {
    const isBad = one.verdict === "failed";
    return { at: one.at, value: one.pass_rate, mark: isBad ? "bad" : "", title: isBad ? "gate failed" : "" };
  };
  const scorers = [...new Set(rows.flatMap((one) => Object.keys(one.means)))];
  const means = scorers.map((name) => {
    const known = rows.filter((one) => typeof one.means[name] === "number");
    return { name, points: known.map((one) => ({ at: one.at, value: one.means[name] })) };
  });
  const found = means.filter((one) => one.points.length);
  const isShare = (one) => one.points.every(({ value }) => value >= 0 && value <= 1);
  const shares = found.filter(isShare).slice(0, MOST_LINES);
  const series = shares.map((one, at) => ({ ...one, color: COLORS[at] }));
  return h(
    "div",
    { className: "charts" },
    rates.length > 0 &&
      h(Lines, {
        title: "Pass rate",
        unit: "share of the judged questions; a cross is a failed gate",
        format: percent,
        series: [{ name: "pass rate", color: COLORS[0], points: rates.map(rate) }],
      }),
    series.length > 0 && h(Lines, { title: "Scores", unit: "mean of all questions, 0 to 1", series }),
    // A latency in seconds would make lines between 0 and 1 flat.
    found
      .filter((one) => !isShare(one))
      .map((one) => h(Lines, { key: one.name, title: one.name, unit: "mean", series: [{ ...one, color: COLORS[0] }] })),
  );
}

/** The failed rules of the last evaluation, with their questions: its task has them. */
function LatestFailure({ evaluation }) {
  const { dag_id, run_id, task_id, map_index, path } = evaluation.task;
  const isKnown = evaluation.verdict === "failed" && path;
  const key = [dag_id, run_id, task_id, map_index].map(encodeURIComponent).join("/");
  const data = useData(isKnown ? `api/tasks/${key}` : null);
  const found = data.data?.evaluation;
  if (!isKnown || !found?.failed_rules.length) return null;
  return h(Fragment, null, h("h3", null, "Why the last one failed"), h(Failed, { evaluation: found }));
}

/** The rules of a gate that failed, with the keys of their worst questions. */
export function Failed({ evaluation }) {
  const isNew = evaluation.newly_failing;
  return h(
    Fragment,
    null,
    isNew.length > 0 &&
      h("p", null, h("strong", null, "Passed before, fail now: "), h(Text, { text: isNew.join(", ") })),
    evaluation.failed_rules.length > 0 &&
      h(
        "ul",
        { className: "items" },
        evaluation.failed_rules.map((rule) =>
          h(
            "li",
            { key: rule.rule },
            h("span", { className: "badge bad" }, rule.verdict),
            ` ${rule.rule}: ${rule.reason}`,
            rule.questions.length > 0 &&
              h("div", { className: "muted" }, h(Text, { text: `Questions: ${rule.questions.join(", ")}` })),
          ),
        ),
      ),
  );
}

function EvaluationTable({ rows, hasSites }) {
  const columns = [
    ["Evaluated", (row) => h(When, { at: row.at })],
    ...(hasSites ? [["Site", (row) => row.site_id ?? "–"]] : []),
    ["Verdict", (row) => h(VerdictBadge, { verdict: row.verdict })],
    ["Pass rate", (row) => percent(row.pass_rate), "number"],
    ["Answered", (row) => `${number(row.answered)} of ${number(row.questions)}`, "number"],
    ["Worse than the baseline", (row) => h(Text, { text: row.worse.join(", ") })],
    ["Report", (row) => (row.report ? h(PageLink, { href: row.report }, "Report") : "–")],
    ["Task", (row) => h(TaskLink, { task: row.task })],
  ];
  return h(Table, { caption: "Last evaluations", columns, rows });
}
