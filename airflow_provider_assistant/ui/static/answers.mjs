// The three answers at the top of the page, as data: pure functions of what the server says.

import { age, brief, MOST_COUNTED, number, percent, plural, total } from "./format.mjs";

const DAY = 86400_000;
/** Whether the last try of a source failed, was killed, or did not even begin. */
const isBroken = ({ load, failed_since: since }) => ["failed", "unfinished"].includes(load.outcome) || Boolean(since);
// The weakest sign that one share is below another: 1.96 standard errors, the usual 95 %.
const ERRORS = 1.96;

/** A count of the server, which counts no further than `MOST_COUNTED`. */
const counted = (count, one, many) =>
  count >= MOST_COUNTED ? `${total(count, true)} ${many}` : plural(count, one, many);

/** A sentence, and its link: `to` a part of the page, or to a `task`, to its log if `isLog`. */
const item = (text, more = {}) => ({ text, ...more });

/** "Did the last loads work?" Returns {kind, word, text, items}. */
export function loadAnswer(summary) {
  if (summary.problem) return { kind: "unknown", word: "Unknown", text: summary.problem.text, items: [] };
  const { sources } = summary;
  if (!sources.length) {
    return {
      kind: "unknown",
      word: "Nothing loaded yet",
      text: "The ledger has no load. Loads appear here when their tasks have run.",
      items: [],
    };
  }
  const ago = (at) => `${age((new Date(summary.now) - new Date(at)) / 1000)} ago`;
  const of = (found, verb) =>
    sources.length === 1
      ? `The source ${verb}.`
      : `${number(found.length)} of ${number(sources.length)} sources ${verb}.`;
  const broken = sources.filter(isBroken);
  if (broken.length) {
    const items = broken.slice(0, 3).map(({ load, failed_since: since }) => {
      if (since) {
        const detail = `The last load began ${ago(load.started_at)}. Airflow's log has the reason.`;
        return item(`${load.source} failed before it began to load`, { task: since, isLog: true, detail });
      }
      const what = load.outcome === "failed" ? "failed" : "was killed";
      return item(`${load.source} ${what} ${ago(load.started_at)}`, { task: load.task, detail: brief(load.error) });
    });
    return { kind: "bad", word: "No", text: of(broken, "did not load"), items };
  }
  const due = sources.filter((one) => one.due);
  if (due.length) {
    const items = due
      .slice(0, 3)
      .map(({ load }) => item(`${load.source} last ran ${ago(load.started_at)}`, { task: load.task }));
    return { kind: "warning", word: "Not all of it", text: `${of(due, "did not run when it usually does")}`, items };
  }
  const withFindings = sources.filter((one) => one.load.outcome === "succeeded with findings");
  if (withFindings.length) {
    const items = withFindings
      .slice(0, 3)
      .map(({ load }) => item(`${load.source} was loaded ${ago(load.started_at)}`, { task: load.task }));
    return { kind: "warning", word: "With findings", text: of(withFindings, "left rows to look at"), items };
  }
  const running = sources.filter((one) => ["running", "deferred"].includes(one.load.outcome));
  const latest = sources
    .map((one) => one.load.started_at)
    .sort()
    .at(-1);
  const created = summary.created_day
    ? ` ${plural(summary.created_day, "document was", "documents were")} created in the last 24 hours.`
    : " Nothing new in the last 24 hours.";
  if (running.length) {
    return {
      kind: "unknown",
      word: "Still running",
      text: `${of(running, running.length === 1 ? "is loading" : "are loading")}${created}`,
      items: [],
    };
  }
  const all =
    sources.length === 1
      ? `The source ${sources[0].load.source} was loaded`
      : `All ${number(sources.length)} sources were loaded; the latest`;
  return { kind: "good", word: "Yes", text: `${all} ${ago(latest)}.${created}`, items: [] };
}

/** "What needs me?" Returns {kind, word, text, items}. */
export function needsAnswer(summary) {
  const items = [];
  const broken = summary.sources.filter(isBroken);
  if (broken.length)
    items.push(
      item(`${plural(broken.length, "source")} to load again`, {
        to: "loads",
        detail: "Read the error, then clear the task.",
      }),
    );
  const { lists } = summary;
  if (lists.unresolved) {
    const since = summary.unresolved_since
      ? `; the oldest is ${age((new Date(summary.now) - new Date(summary.unresolved_since)) / 1000)} old`
      : "";
    const count = counted(lists.unresolved, "ambiguous entry", "ambiguous entries");
    items.push(
      item(`${count} to settle`, { to: "unresolved", detail: `They may or may not have been created${since}.` }),
    );
  }
  if (lists.doubled) {
    const count = counted(lists.doubled, "entry", "entries");
    items.push(item(`${count} possibly duplicated`, { to: "doubled", detail: "Look for a second one on the site." }));
  }
  for (const { load } of summary.sources) {
    if (load.counts.rejected) {
      items.push(
        item(`${plural(load.counts.rejected, "rejected row")} of ${load.source}`, {
          task: load.task,
          detail: "Correct them in the source. The tab Assistant of the task lists them.",
        }),
      );
    }
  }
  if (lists.draft) {
    items.push(
      item(`${counted(lists.draft, "document", "documents")} not in use`, {
        to: "draft",
        detail: "Activate them on the site.",
      }),
    );
  }
  for (const gate of summary.gates.filter((one) => one.verdict === "failed")) {
    items.push(
      item(`Evaluation ${gate.name} failed its gate`, {
        to: "evaluations",
        detail: gate.worse.length ? `Worse: ${gate.worse.join(", ")}.` : "",
      }),
    );
  }
  if (lists.superseded) {
    items.push(
      item(`${counted(lists.superseded, "superseded document", "superseded documents")} to delete`, {
        to: "superseded",
        detail: "Their rows have changed. Delete them on the site, then record it.",
      }),
    );
  }
  if (lists.stale) {
    items.push(
      item(`${counted(lists.stale, "stale document", "stale documents")} to delete`, {
        to: "stale",
        detail: "Their rows are gone from the source. Delete them on the site, then record it.",
      }),
    );
  }
  const missing = summary.problem ?? null;
  if (items.length) return { kind: "warning", word: plural(items.length, "thing"), text: "", items };
  if (missing) return { kind: "unknown", word: "Unknown", text: "The ledger cannot be read.", items };
  return {
    kind: "good",
    word: "Nothing",
    text: "No ambiguous entries, no rejected rows, no outdated documents, no failed gate.",
    items,
  };
}

/**
 * "Is the assistant worse than last week?" Returns {kind, word, text, items}.
 *
 * Compares the latest evaluation of each name with the latest one that is at least six and a half days older. A lower
 * pass rate counts only if chance does not explain it: the 95 % interval of the difference of two shares lies below 0.
 */
export function worseAnswer(evaluations) {
  if (evaluations.problem && !evaluations.rows.length)
    return { kind: "unknown", word: "Unknown", text: evaluations.problem.text, items: [] };
  if (!evaluations.rows.length) {
    return {
      kind: "unknown",
      word: "Not evaluated",
      text: "The lake has no evaluation. Add an AssistantEvaluateOperator to compare answers week by week.",
      items: [],
    };
  }
  const names = [...new Set(evaluations.rows.map((one) => one.name))];
  const found = names.map((name) => compared(evaluations.rows.filter((one) => one.name === name)));
  const worst = ["bad", "warning", "unknown", "good"].find((kind) => found.some((one) => one.kind === kind));
  const items = found.map(({ text, detail, report }) => item(text, { detail, report, to: "evaluations" }));
  return {
    kind: worst,
    word: { bad: "Yes", warning: "Perhaps", unknown: "No comparison", good: "No" }[worst],
    text: "",
    items,
  };
}

function compared(rows) {
  const latest = rows.at(-1);
  const before = rows.filter((one) => new Date(latest.at) - new Date(one.at) >= 6.5 * DAY).at(-1);
  const { report } = latest;
  const rate =
    latest.pass_rate === null ? `${percent(latest.coverage)} answered` : `${percent(latest.pass_rate)} passed`;
  const failed = latest.verdict === "failed";
  const worse = latest.worse.length ? `Worse than the baseline: ${latest.worse.join(", ")}.` : "";
  const detail = [failed && "The gate failed.", worse].filter(Boolean).join(" ");
  const [now, then] = [latest, before].map((one) => one?.pass_rate ?? one?.coverage ?? null);
  if (now === null || then === null) {
    const none = `There is nothing of a week before to compare with. ${detail}`.trim();
    return { kind: failed ? "bad" : "unknown", text: `${latest.name}: ${rate}`, detail: none, report };
  }
  const text = `${latest.name}: ${rate}, ${percent(then)} a week before`;
  if (failed || isSurelyLower(now, latest.questions, then, before.questions))
    return { kind: "bad", text, detail, report };
  if (worse) return { kind: "warning", text, detail, report };
  return { kind: "good", text, detail: now < then ? "Chance explains a difference of this size." : "", report };
}

/** Whether a share is below another by more than chance explains, see `worseAnswer`. */
export function isSurelyLower(now, questions, then, questionsThen) {
  if (!questions || !questionsThen) return false;
  const error = Math.sqrt((now * (1 - now)) / questions + (then * (1 - then)) / questionsThen);
  return now - then + ERRORS * error < 0;
}
