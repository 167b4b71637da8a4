// What the page shows, in its address: Back, reload and a copied link show the same.

import { h, Link, useEffect, useId, useLocation, useNavigate, useRef } from "./core.mjs";

export const PAGE = "/plugin/assistant";
// In which view a heading is.
const VIEW_OF = {
  loads: "loads",
  documents: "loads",
  unresolved: "settle",
  doubled: "settle",
  superseded: "settle",
  stale: "settle",
  draft: "settle",
  open: "settle",
  evaluations: "quality",
};
// What stays selected in all views. A site is identified by both: two services may have the same site id.
const WHERE = ["site", "service"];

/** The address of the page. `search`, the text that keys contain, is after the #, which browsers do not send. */
function addressOf({ search = "", ...query }) {
  const given = (values) => new URLSearchParams(Object.entries(values).filter(([, value]) => value)).toString();
  const hash = given({ search });
  return { pathname: PAGE, search: `?${given(query)}`, hash: hash && `#${hash}` };
}

/** Names and values in the address, and a function that changes some of them. */
export function useAddress() {
  const { pathname, search, hash } = useLocation();
  const navigate = useNavigate();
  const isHere = pathname.endsWith(PAGE);
  const text = new URLSearchParams(hash.slice(1)).get("search") ?? "";
  const address = isHere ? { ...Object.fromEntries(new URLSearchParams(search)), search: text } : {};
  return [address, (changes) => navigate(addressOf({ ...address, ...changes }))];
}

/** The site that an address selects, as parameters of requests. */
export const whereOf = (address) => Object.fromEntries(WHERE.map((name) => [name, address[name] ?? ""]));

/** A link to a view. The site stays. */
export function ViewLink({ view, where, children, ...rest }) {
  const [address] = useAddress();
  return h(Link, { to: addressOf({ view, ...whereOf(address), ...where }), ...rest }, children);
}

/** A link to a part of the page, also from other pages of Airflow. `where`: what it selects there. */
export const PartLink = ({ part, children, ...rest }) =>
  h(ViewLink, { view: VIEW_OF[part], state: { part }, ...rest }, children);

const nameOf = (site, sites) => {
  const isOnly = sites.filter((one) => one.site_id === site.site_id).length < 2;
  return isOnly ? site.site_id : `${site.site_id}, ${site.service}`;
};

/** The choices of sites: [value, text], and the parameters of a value. */
export function siteChoices(sites, where) {
  const parameters = [{ site: "", service: "" }];
  const options = [["0", "all sites"]];
  for (const site of sites) {
    options.push([String(parameters.length), nameOf(site, sites)]);
    parameters.push({ site: site.site_id, service: site.service });
  }
  const isSelected = (one) => one.site === where.site && one.service === where.service;
  let at = parameters.findIndex(isSelected);
  if (at < 0) {
    // A link may name a site that the ledger no longer lists, or a site id without its service.
    at = parameters.length;
    options.push([String(at), [where.site, where.service].filter(Boolean).join(", ")]);
    parameters.push(where);
  }
  return { options, value: String(at), parametersOf: (value) => parameters[Number(value)] };
}

/** A field for the text that keys contain. It filters on Enter, or when it is left. */
export function Search({ value, onChange }) {
  const id = useId();
  const field = useRef(null);
  const changed = () => {
    const text = field.current.value.trim();
    if (text !== value) onChange(text);
  };
  // Back, or the button that removes the filters.
  useEffect(() => {
    field.current.value = value;
  }, [value]);
  return h(
    "form",
    {
      className: "choice",
      role: "search",
      onSubmit: (event) => {
        event.preventDefault();
        changed();
      },
    },
    h("label", { htmlFor: id }, "Key contains"),
    h("input", { id, ref: field, type: "search", maxLength: 200, onBlur: changed }),
  );
}
