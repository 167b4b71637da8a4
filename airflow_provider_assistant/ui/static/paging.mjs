// The line below a table that turns its pages.

import { h, useEffect, useState } from "./core.mjs";
import { MOST_COUNTED, number, plural, total } from "./format.mjs";

/** The offset of a table's page. It begins again when what the table shows changes. */
export function usePages(of) {
  const [place, setPlace] = useState({ of, offset: 0 });
  useEffect(() => setPlace({ of, offset: 0 }), [of]);
  return [place.of === of ? place.offset : 0, (offset) => setPlace({ of, offset })];
}

const singular = (noun) => noun.replace(/ies$/, "y").replace(/s$/, "");

export function Pages({ of, noun, onTurn }) {
  const { total: count, is_capped: isCapped, limit, offset, rows } = of;
  const last = offset + rows.length;
  const hasNext = last < count || (isCapped && rows.length === limit && last < MOST_COUNTED);
  if (offset === 0 && !hasNext) return h("p", { className: "muted pages" }, plural(count, singular(noun), noun));
  return h(
    "nav",
    { className: "pages", "aria-label": `Pages of ${noun}` },
    h("button", { disabled: offset === 0, onClick: () => onTurn(Math.max(0, offset - limit)) }, "Previous"),
    h("span", { role: "status" }, `${number(offset + 1)} to ${number(last)} of ${total(count, isCapped)} ${noun}`),
    h("button", { disabled: !hasNext, onClick: () => onTurn(offset + limit) }, "Next"),
  );
}
