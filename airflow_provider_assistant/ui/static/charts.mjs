// Charts as SVG: a stacked bar, lines over days, a histogram. Each has a name that says what it shows, and its data as
// a table for readers who cannot see it or want the numbers.

import { h, Table, useEffect, useRef, useState } from "./core.mjs";
import { clock, day, moment, number, percent, short, ticks, widths } from "./format.mjs";

const DAY = 86400_000;
const HEIGHT = 190;
const TOP = 10;
const BOTTOM = 26;
// Average width of a character of a tick, in pixels.
const CHARACTER = 6.6;
const DASHES = ["none", "6 3", "2 3", "8 3 2 3", "1 2", "12 4"];

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

/**
 * A drawing with its heading, its legend, and its data as a table.
 *
 * `name` and `caption`: of the drawing and the table for screen readers. `draw`: from a width to the content of the SVG.
 */
function Chart({ title, caption, name, height, legend, columns, rows, draw }) {
  const [place, width] = useWidth();
  return h(
    "figure",
    { className: "chart" },
    title && h("figcaption", null, title),
    h(
      "div",
      { ref: place, style: { height } },
      width > 0 &&
        h("svg", { role: "img", "aria-label": name, width, height, viewBox: `0 0 ${width} ${height}` }, draw(width)),
    ),
    legend,
    columns && h("details", null, h("summary", null, "Show the numbers"), h(Table, { caption, columns, rows })),
  );
}

const Swatch = ({ color, dash }) =>
  h(
    "svg",
    { className: "swatch", width: 18, height: 12, "aria-hidden": true },
    dash === undefined
      ? h("rect", { width: 12, height: 12, x: 3, rx: 2, fill: color })
      : h("line", { x1: 0, x2: 18, y1: 6, y2: 6, stroke: color, strokeWidth: 2.5, strokeDasharray: dash }),
  );

/**
 * Parts of a whole as one bar, and a legend whose numbers add up to it.
 *
 * `parts`: [name, count, color, explanation]; `noun`: what is counted, in the plural.
 */
export function StackedBar({ parts, noun, label }) {
  const counts = parts.map(([, count]) => count ?? 0);
  const sum = counts.reduce((left, right) => left + right, 0);
  const shown = parts.filter(([, count]) => count > 0);
  const texts = shown.map(([part, count]) => `${number(count)} ${part}`);
  const name = `${label}: ${number(sum)} ${noun}. ${texts.join(", ")}`;
  function draw(width) {
    const gap = 2;
    const sizes = widths(counts, width - gap * Math.max(0, shown.length - 1));
    let x = 0;
    return parts.map(([part, count, color], at) => {
      if (!count) return null;
      const left = x;
      x += sizes[at] + gap;
      return h(
        "rect",
        { key: part, x: left, y: 0, width: sizes[at], height: 22, rx: 2, fill: color },
        h("title", null, `${number(count)} ${part}, ${percent(count / sum)}`),
      );
    });
  }
  const legend = h(
    "dl",
    { className: "legend" },
    parts.map(([part, count, color, explanation]) =>
      h(
        "div",
        { key: part, className: count ? "" : "none" },
        h("dt", { title: explanation }, h(Swatch, { color }), part),
        h("dd", null, number(count ?? 0)),
      ),
    ),
    h("div", null, h("dt", null, `= ${noun}`), h("dd", null, number(sum))),
  );
  return h(Chart, { name, height: 22, legend, draw });
}

/** The frame of a chart: horizontal lines with their values. Returns its elements and the scale of the values. */
function frame(low, high, width, text) {
  const found = ticks(low, high);
  const left = Math.ceil(Math.max(...found.map((one) => text(one).length)) * CHARACTER) + 8;
  const [bottom, top] = [found[0], found.at(-1)];
  const y = (value) => TOP + (1 - (value - bottom) / (top - bottom)) * (HEIGHT - TOP - BOTTOM);
  const lines = found.map((one) =>
    h(
      "g",
      { key: `y${one}`, className: "tick" },
      h("line", { x1: left, x2: width, y1: y(one), y2: y(one) }),
      h("text", { x: left - 6, y: y(one) + 4, textAnchor: "end" }, text(one)),
    ),
  );
  return { left, y, lines };
}

const time = (at) => new Date(at).getTime();

/** A day as a day, a time as a time. */
const label = (at) => (at.includes("T") ? moment(at) : day(at));

/** Ticks of a time axis: evenly spaced times between the first and the last one. */
function timeTicks(first, last, x, width) {
  const count = Math.max(1, Math.min(6, Math.floor(width / 110)));
  const times =
    first === last ? [first] : Array.from({ length: count + 1 }, (_, at) => first + ((last - first) * at) / count);
  const days = times
    .map((one) => [x(one), last - first < DAY && first !== last ? clock(one) : day(one)])
    .filter(([, text], at, all) => at === 0 || all[at - 1][1] !== text);
  return days.map(([at, text], index) => {
    const anchor = days.length === 1 ? "middle" : index === 0 ? "start" : index === days.length - 1 ? "end" : "middle";
    return h("text", { key: `x${text}`, className: "tick", x: at, y: HEIGHT - 6, textAnchor: anchor }, text);
  });
}

/**
 * Lines over time.
 *
 * `series`: [{name, color, points: [{at, value, mark, title}]}], where `at` is a date or a time, and a point with the
 * `mark` "bad" is drawn as a cross. `format`: a value as text. `fromZero`: whether the axis begins at 0.
 */
export function Lines({ title, unit, series, format = number, fromZero = true }) {
  const points = series.flatMap((one) => one.points);
  const times = points.map((one) => time(one.at));
  const values = points.map((one) => one.value);
  const [first, last] = [Math.min(...times), Math.max(...times)];
  const [smallest, largest] = [Math.min(...values), Math.max(...values)];
  const low = fromZero && smallest >= 0 ? 0 : smallest - (largest - smallest) * 0.1;
  const name = `${title}, ${unit}, from ${day(first)} to ${day(last)}. ${series
    .map((one) => `${one.name}: first ${format(one.points[0].value)}, last ${format(one.points.at(-1).value)}`)
    .join("; ")}`;
  const text = format === number ? short : format;

  function draw(width) {
    const { left, y, lines } = frame(low, largest, width, text);
    const x = (at) =>
      first === last ? (left + width) / 2 : left + 6 + ((at - first) / (last - first)) * (width - left - 12);
    const drawn = series.map((one, at) => {
      const places = one.points.map((point) => [x(time(point.at)), y(point.value), point]);
      const path = places.map(([px, py], index) => `${index ? "L" : "M"}${px.toFixed(1)},${py.toFixed(1)}`).join("");
      return h(
        "g",
        { key: one.name, stroke: one.color, fill: "none" },
        places.length > 1 &&
          h("path", { d: path, strokeWidth: 2, strokeDasharray: DASHES[at % DASHES.length], strokeLinejoin: "round" }),
        places.map(([px, py, point], index) =>
          h(Mark, { key: index, x: px, y: py, point, color: one.color, few: places.length <= 40, format }),
        ),
      );
    });
    return [...lines, ...timeTicks(first, last, x, width - left), ...drawn];
  }

  const legend =
    series.length > 1 &&
    h(
      "ul",
      { className: "legend lines" },
      series.map((one, at) =>
        h("li", { key: one.name }, h(Swatch, { color: one.color, dash: DASHES[at % DASHES.length] }), one.name),
      ),
    );
  const days = [...new Set(points.map((one) => one.at))].sort();
  const heading = h("span", null, title, " ", h("span", { className: "muted" }, unit));
  if (days.length === 1) return h(SingleDay, { heading, series, format });
  const found = series.map((one) => new Map(one.points.map((point) => [point.at, point])));
  const columns = [
    ["Day", label],
    ...series.map((one, at) => [
      one.name,
      (on) =>
        found[at].has(on)
          ? `${format(found[at].get(on).value)}${found[at].get(on).title ? `, ${found[at].get(on).title}` : ""}`
          : "–",
      "number",
    ]),
  ];
  return h(Chart, { title: heading, caption: title, name, height: HEIGHT, legend, columns, rows: days, draw });
}

/** The values of the only day or time so far: a line would be a dot. */
const SingleDay = ({ heading, series, format }) =>
  h(
    "figure",
    { className: "chart" },
    h("figcaption", null, heading),
    h(
      "dl",
      { className: "legend" },
      series.map(({ name, points: [point] }) =>
        h(
          "div",
          { key: name },
          h("dt", null, `${name}, ${label(point.at)}`),
          h("dd", null, format(point.value), point.title && `, ${point.title}`),
        ),
      ),
    ),
  );

/** A point of a line: a dot, or a cross for a bad one. The area around it shows its value. */
function Mark({ x, y, point, color, few, format }) {
  const text = `${label(point.at)}: ${format(point.value)}${point.title ? `, ${point.title}` : ""}`;
  const sign =
    point.mark === "bad"
      ? h("path", {
          d: `M${x - 5},${y - 5}L${x + 5},${y + 5}M${x - 5},${y + 5}L${x + 5},${y - 5}`,
          stroke: "var(--bad)",
          strokeWidth: 3,
        })
      : few && h("circle", { cx: x, cy: y, r: 3, fill: color, stroke: "none" });
  return h(
    "g",
    null,
    sign,
    h("circle", { cx: x, cy: y, r: 9, fill: "transparent", stroke: "none" }, h("title", null, text)),
  );
}

/** A histogram. `bins`: [{low, high, count}]; `unit`: of the values; `noun`: what is counted. */
export function Histogram({ title, bins, unit, noun }) {
  const largest = Math.max(...bins.map((one) => one.count));
  const sum = bins.reduce((left, one) => left + one.count, 0);
  const range = (one) => `${number(one.low)} to ${number(one.high)} ${unit}`;
  const mode = bins.find((one) => one.count === largest);
  const whole = range({ low: bins[0].low, high: bins.at(-1).high });
  const name = `${title}: histogram of ${number(sum)} ${noun} from ${whole}. Most are from ${range(mode)}.`;
  function draw(width) {
    const { left, y, lines } = frame(0, largest, width, short);
    const step = (width - left) / bins.length;
    const edges = [...bins.map((one) => one.low), bins.at(-1).high];
    const every = Math.ceil((edges.length * 46) / (width - left));
    const bars = bins.map((one, at) =>
      h(
        "rect",
        {
          key: at,
          x: left + at * step + 1,
          y: y(one.count),
          width: Math.max(1, step - 2),
          height: y(0) - y(one.count),
          fill: "var(--series-1)",
        },
        h("title", null, `${range(one)}: ${number(one.count)}`),
      ),
    );
    const texts = edges.map(
      (edge, at) =>
        at % every === 0 &&
        h(
          "text",
          {
            key: `x${at}`,
            className: "tick",
            x: left + at * step,
            y: HEIGHT - 6,
            textAnchor: at === edges.length - 1 ? "end" : "middle",
          },
          number(edge),
        ),
    );
    return [...lines, ...bars, ...texts];
  }
  const columns = [
    [`From (${unit})`, (one) => number(one.low), "number"],
    [`To (${unit})`, (one) => number(one.high), "number"],
    ["Count", (one) => number(one.count), "number"],
  ];
  return h(Chart, {
    title: h("span", null, title, " ", h("span", { className: "muted" }, `${noun} by ${unit}`)),
    caption: title,
    name,
    height: HEIGHT,
    columns,
    rows: bins,
    draw,
  });
}
