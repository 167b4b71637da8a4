// Numbers, times and durations as text. The pages are in English, so the viewer's own English variety is used.

const LANGUAGE = globalThis.navigator?.languages?.find((one) => one.startsWith("en")) ?? "en";
const PLAIN = new Intl.NumberFormat(LANGUAGE, { maximumFractionDigits: 2 });
const SHORT = new Intl.NumberFormat(LANGUAGE, { notation: "compact", maximumFractionDigits: 1 });
const PERCENT = new Intl.NumberFormat(LANGUAGE, { style: "percent", maximumFractionDigits: 1 });
const UNITS = [
  ["day", 86400],
  ["hour", 3600],
  ["minute", 60],
  ["second", 1],
];
const NONE = "–";

export const number = (value) => (value === null || value === undefined ? NONE : PLAIN.format(value));
/** A number for an axis: "0.25", "25", "90K". */
export const short = (value) => (Math.abs(value) < 1000 ? PLAIN : SHORT).format(value);
export const percent = (value) => (value === null || value === undefined ? NONE : PERCENT.format(value));

/** "1 row", "2 rows". */
export const plural = (count, one, many = `${one}s`) => `${number(count)} ${count === 1 ? one : many}`;

// The server counts no further.
export const MOST_COUNTED = 10000;
/** A total that the server may have stopped counting: "10,000+". */
export const total = (count, isCapped) => `${number(isCapped ? MOST_COUNTED : count)}${isCapped ? "+" : ""}`;

/** Seconds in the largest fitting unit: "5 hours". */
export function age(seconds) {
  const whole = Math.max(0, seconds);
  const [unit, size] = UNITS.find(([, one]) => whole >= one) ?? UNITS.at(-1);
  return new Intl.NumberFormat(LANGUAGE, { style: "unit", unit, unitDisplay: "long", maximumFractionDigits: 0 }).format(
    Math.floor(whole / size),
  );
}

/** Seconds with the precision that helps: "0.42 s", "12.3 s", "4 min 40 s", "2 h 5 min". */
export function duration(seconds) {
  if (seconds === null || seconds === undefined) return NONE;
  if (seconds < 60) return `${new Intl.NumberFormat(LANGUAGE, { maximumSignificantDigits: 3 }).format(seconds)} s`;
  const [minutes, rest] = [Math.floor(seconds / 60), Math.floor(seconds % 60)];
  return minutes < 60 ? `${minutes} min ${rest} s` : `${number(Math.floor(minutes / 60))} h ${minutes % 60} min`;
}

/** The time zone that the viewer selected in Airflow, otherwise the browser's. */
export function timeZone() {
  try {
    const selected = JSON.parse(globalThis.localStorage.getItem("timezone"));
    new Intl.DateTimeFormat(LANGUAGE, { timeZone: selected });
    return selected ?? undefined;
  } catch {
    return undefined;
  }
}

/** A time for the viewer: "Nov 22, 2026, 6:30 AM". */
export const moment = (iso, zone = timeZone()) =>
  new Intl.DateTimeFormat(LANGUAGE, { dateStyle: "medium", timeStyle: "short", timeZone: zone }).format(new Date(iso));

/** The same time in UTC, to the second: "2026-11-22 06:30:00 UTC". */
export const utc = (iso) => `${new Date(iso).toISOString().slice(0, 19).replace("T", " ")} UTC`;

/** A UTC day without the year: "Nov 22". Days of reports are UTC days in every time zone. */
export const day = (iso) =>
  new Intl.DateTimeFormat(LANGUAGE, { month: "short", day: "numeric", timeZone: "UTC" }).format(new Date(iso));

/** The time of a day for the viewer: "6:30 AM". */
export const clock = (iso, zone = timeZone()) =>
  new Intl.DateTimeFormat(LANGUAGE, { timeStyle: "short", timeZone: zone }).format(new Date(iso));

/** The beginning of a text on one line, with an ellipsis if there is more. */
export function brief(text, length = 160) {
  const line = (text ?? "").split("\n")[0];
  return line.length > length ? `${line.slice(0, length).trimEnd()} …` : line;
}

/** Five or fewer round numbers from 0 or below to at least the largest value. */
export function ticks(low, high, count = 4) {
  const span = high - low || Math.abs(high) || 1;
  const power = 10 ** Math.floor(Math.log10(span / count));
  const step = [1, 2, 2.5, 5, 10].map((one) => one * power).find((one) => span / one <= count) ?? 10 * power;
  const first = Math.floor(low / step) * step;
  const found = [];
  for (let at = 0; found.length === 0 || found.at(-1) < high; at += 1)
    found.push(Number((first + at * step).toPrecision(12)));
  return found.length > 1 ? found : [first, first + step];
}

/** Widths of the parts of a bar. A part that is not empty is at least `smallest` wide, so that 1 of 10,000 is seen. */
export function widths(counts, width, smallest = 4) {
  const sum = counts.reduce((left, right) => left + right, 0);
  if (sum === 0) return counts.map(() => 0);
  const isSmall = counts.map((count) => count > 0 && (count / sum) * width < smallest);
  const reserved = isSmall.filter(Boolean).length * smallest;
  const rest = counts.reduce((left, count, at) => left + (isSmall[at] ? 0 : count), 0);
  return counts.map((count, at) => (isSmall[at] ? smallest : (count / (rest || 1)) * Math.max(0, width - reserved)));
}
