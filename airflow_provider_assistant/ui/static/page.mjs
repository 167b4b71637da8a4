// The page "Assistant": what needs a person, the tries of tasks, and how documents and evaluations have changed.

import { Choice, Frame, h, Link, Refresh, Section, Shown, useData, useLocation, useNavigate, useState } from "./core.mjs";
import { Lines, MOST_LINES } from "./chart.mjs";
import { number, percent } from "./format.mjs";
import { Entries } from "./settle.mjs";
import { Tries } from "./tries.mjs";

const PAGE = "/plugin/assistant";

/** The address of the page. `search`, the text that keys contain, is after the #, which browsers do not send. */
function addressOf({ search = "", ...query }) {
  const given = (values) => new URLSearchParams(Object.entries(values).filter(([, value]) => value)).toString();
  return { pathname: PAGE, search: `?${given(query)}`, hash: search && `#${given({ search })}` };
}

/** What the page shows, in its address: Back, reload and a copied link show the same. */
function useAddress() {
  const { search, hash } = useLocation();
  const navigate = useNavigate();
  const text = new URLSearchParams(hash.slice(1)).get("search") ?? "";
  const address = { ...Object.fromEntries(new URLSearchParams(search)), search: text };
  return [address, (changes) => navigate(addressOf({ ...address, ...changes }))];
}

/** A link to the page. `where`: what it selects there. */
export const PageAt = ({ where, children }) => h(Link, { to: addressOf(where) }, children);

export function Page() {
  const [round, setRound] = useState(0);
  const refresh = () => setRound((last) => last + 1);
  return h(Refresh.Provider, { value: round }, h(Frame, { className: "page" }, h(Content, { refresh })));
}

function Content({ refresh }) {
  const [address, change] = useAddress();
  const data = useData("api/context");
  const { site = "", service = "", source = "" } = address;
  const where = { site, service, source };
  const shown = (context) => {
    const { sites } = context;
    const selected = sites.filter((one) => (!site || one.site_id === site) && (!service || one.service === service));
    const only = selected.length === 1 ? selected[0] : null;
    const lists = { where, address, change, refresh, only, maySettle: context.may_settle };
    return h(
      "div",
      null,
      h(
        "div",
        { className: "filters" },
        h(SiteChoice, { sites, where, change }),
        h(SourceChoice, { sources: selected.flatMap((one) => one.sources), source, change }),
        h("button", { onClick: refresh }, "Refresh"),
      ),
      h(Entries, lists),
      h(Tries, lists),
      h("div", { className: "charts" }, h(Documents, { where }), h(Evaluations, { where })),
    );
  };
  return h(
    "div",
    null,
    h("h1", null, "Assistant"),
    h(Shown, { of: data, what: "sites", isEmpty: (context) => Boolean(context.problem) }, shown),
  );
}

/** The choice of a site: two services may have the same site id. */
function SiteChoice({ sites, where, change }) {
  const known = sites.filter((one) => one.site_id).map((one) => ({ site: one.site_id, service: one.service }));
  const isSelected = (one) => one.site === where.site && (!where.service || one.service === where.service);
  // A link may name a site that the ledger no longer lists.
  if (where.site && !known.some(isSelected)) known.push({ site: where.site, service: where.service });
  if (known.length < 2 && !where.site) return null;
  const isTwice = (one) => known.filter(({ site }) => site === one.site).length > 1;
  const nameOf = (one) => (isTwice(one) ? `${one.site}, ${one.service}` : one.site);
  return h(Choice, {
    label: "Site",
    value: String(known.findIndex(isSelected)),
    options: [["-1", "all sites"], ...known.map((one, at) => [String(at), nameOf(one)])],
    onChange: (at) => change({ site: "", service: "", source: "", ...known[Number(at)] }),
  });
}

function SourceChoice({ sources, source, change }) {
  const names = [...new Set([...sources, source])].filter(Boolean).sort();
  const options = [["", "all sources"], ...names.map((name) => [name, name])];
  return h(Choice, { label: "Source", value: source, options, onChange: (value) => change({ source: value }) });
}

function Documents({ where: { site, service } }) {
  const data = useData("api/documents", { site, service });
  const empty = "No load has counted its documents yet.";
  const intro = "One per row that the ledger knows on the site, at the end of each UTC day with loads.";
  return h(
    Section,
    { id: "documents", title: "Documents", intro },
    h(Shown, { of: data, what: "documents", empty, isEmpty: ({ days }) => days.length === 0 }, ({ days }) => {
      const points = days.map((one) => ({ at: one.day, value: one.documents }));
      return h(Lines, { title: "Documents", series: [{ name: "Documents", points }], format: number });
    }),
  );
}

/** The lines of evaluations by their names: those that ran last. A try without a pass rate has no point. */
function seriesOf(tries) {
  const series = new Map();
  for (const row of tries) {
    const value = row.counts.pass_rate;
    if (typeof value !== "number") continue;
    const points = series.get(row.source) ?? [];
    series.set(row.source, [{ at: row.started_at, value }, ...points]);
  }
  return [...series].slice(0, MOST_LINES).map(([name, points]) => ({ name, points }));
}

function Evaluations({ where }) {
  const data = useData("api/tries", { ...where, kind: "evaluation", limit: 100 });
  const isEmpty = ({ rows }) => seriesOf(rows).length === 0;
  const intro = `Share of the judged questions that passed, of the ${MOST_LINES} evaluations that ran last.`;
  const empty = "No evaluation with pass_if has run yet.";
  return h(
    Section,
    { id: "evaluations", title: "Evaluations", intro },
    h(Shown, { of: data, what: "evaluations", empty, isEmpty }, ({ rows }) =>
      h(Lines, { title: "Pass rate", series: seriesOf(rows), format: percent }),
    ),
  );
}
