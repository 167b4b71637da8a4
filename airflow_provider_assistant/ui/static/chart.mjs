// A chart of lines over time as SVG. It has a name that says what it shows, and its data as a table.

import { h, Table, useEffect, useRef, useState } from "./core.mjs";
import { day, short } from "./format.mjs";

const HEIGHT = 180;
const [TOP, BOTTOM, LEFT] = [10, 24, 52];
const DASHES = ["none", "6 3", "2 3", "8 3 2 3"];
// Lines that can still be told apart, by their colours and dashes.
export const MOST_LINES = DASHES.length;
const time = (at) => new Date(at).getTime();

/** The width of an element in pixels, so that text in a drawing keeps its size. */
function useWidth() {
  const place = useRef(null);
  const [width, setWidth] = useState(0);
  useEffect(() => {
    const observer = new ResizeObserver(([entry]) => setWidth(Math.floor(entry.contentRect.width)));
    observer.observe(place.current);
    return () => observer.disconnect();
  }, []);
  return [place, width];
}

/** The largest value of an axis from 0: 1, 2 or 5 times a power of ten. */
function roundUp(value) {
  const power = 10 ** Math.floor(Math.log10(value || 1));
  return [1, 2, 5, 10].map((one) => one * power).find((one) => one >= value);
}

/** Lines. `series`: [{name, points: [{at, value}]}], earliest first; `format`: of values. */
export function Lines({ title, series, format }) {
  const [place, width] = useWidth();
  const points = series.flatMap((one) => one.points);
  const times = points.map((one) => time(one.at));
  const [first, last] = [Math.min(...times), Math.max(...times)];
  const top = roundUp(Math.max(...points.map((one) => one.value)));
  const x = (at) => LEFT + 6 + (first === last ? 0.5 : (time(at) - first) / (last - first)) * (width - LEFT - 12);
  const y = (value) => TOP + (1 - value / top) * (HEIGHT - TOP - BOTTOM);
  const ends = series.map((one) => `${one.name}: last ${format(one.points.at(-1).value)}`).join("; ");
  const axis = [0, top / 2, top].map((value) =>
    h(
      "g",
      { key: `y${value}`, className: "tick" },
      h("line", { x1: LEFT, x2: width, y1: y(value), y2: y(value) }),
      h("text", { x: LEFT - 6, y: y(value) + 4, textAnchor: "end" }, format === String ? value : short(value)),
    ),
  );
  const edges = [...new Set([first, last])].map((at, index) =>
    h("text", { key: at, className: "tick", x: x(at), y: HEIGHT - 6, textAnchor: index ? "end" : "start" }, day(at)),
  );
  const lines = series.map((one, at) =>
    h(
      "g",
      { key: one.name, className: `series-${at}` },
      h("polyline", {
        points: one.points.map((point) => `${x(point.at).toFixed(1)},${y(point.value).toFixed(1)}`).join(" "),
        strokeDasharray: DASHES[at],
      }),
      one.points.map((point) =>
        h(
          "circle",
          { key: point.at, cx: x(point.at), cy: y(point.value), r: one.points.length > 40 ? 1 : 3 },
          h("title", null, `${one.name}, ${day(point.at)}: ${format(point.value)}`),
        ),
      ),
    ),
  );
  const rows = series.flatMap((one) => one.points.map((point) => ({ ...point, name: one.name }))).reverse();
  const columns = [
    ["Day", (row) => day(row.at)],
    ...(series.length > 1 ? [["Name", (row) => row.name]] : []),
    [title, (row) => format(row.value), "number"],
  ];
  const swatch = (at) =>
    h("svg", { width: 22, height: 10, "aria-hidden": true }, h("polyline", { points: "0,5 22,5", strokeDasharray: DASHES[at] }));
  const legend = series.map((one, at) => h("li", { key: one.name, className: `series-${at}` }, swatch(at), one.name));
  return h(
    "figure",
    { className: "chart" },
    h(
      "div",
      { ref: place, style: { height: HEIGHT } },
      width > 0 && h("svg", { role: "img", "aria-label": `${title}. ${ends}`, width, height: HEIGHT }, axis, edges, lines),
    ),
    series.length > 1 && h("ul", { className: "legend" }, legend),
    h("details", null, h("summary", null, "Show the numbers"), h(Table, { caption: title, columns, rows })),
  );
}
