// Numbers, times and durations as text. The pages are in English, so the viewer's own English variety is used.

const LANGUAGE = globalThis.navigator?.languages?.find((one) => one.startsWith("en")) ?? "en";
const PLAIN = new Intl.NumberFormat(LANGUAGE, { maximumFractionDigits: 2 });
const SHORT = new Intl.NumberFormat(LANGUAGE, { notation: "compact", maximumFractionDigits: 1 });
const PERCENT = new Intl.NumberFormat(LANGUAGE, { style: "percent", maximumFractionDigits: 1 });
const NONE = "–";
const isNone = (value) => value === null || value === undefined;

export const number = (value) => (isNone(value) ? NONE : PLAIN.format(value));
export const percent = (value) => (isNone(value) ? NONE : PERCENT.format(value));

/** A number for an axis: "0.25", "25", "90K". */
export const short = (value) => (Math.abs(value) < 1000 ? PLAIN : SHORT).format(value);

/** "1 row", "2 rows". */
export const plural = (count, one, many = `${one}s`) => `${number(count)} ${count === 1 ? one : many}`;

/** The words of a name: "not submitted". */
export const words = (name) => name.replaceAll(/[_-]/g, " ");

/** Seconds with the precision that helps: "0.42 s", "12.3 s", "4 min 40 s", "2 h 5 min". */
export function duration(seconds) {
  if (isNone(seconds)) return NONE;
  if (seconds < 60) return `${new Intl.NumberFormat(LANGUAGE, { maximumSignificantDigits: 3 }).format(seconds)} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min ${Math.floor(seconds % 60)} s`;
  return `${number(Math.floor(minutes / 60))} h ${minutes % 60} min`;
}

/** The time zone that the viewer selected in Airflow, otherwise the browser's. */
function timeZone() {
  try {
    const selected = JSON.parse(globalThis.localStorage.getItem("timezone"));
    new Intl.DateTimeFormat(LANGUAGE, { timeZone: selected });
    return selected ?? undefined;
  } catch {
    return undefined;
  }
}

/** A time for the viewer: "Nov 22, 2026, 6:30 AM". */
export const moment = (iso, timeZoneName = timeZone()) =>
  new Intl.DateTimeFormat(LANGUAGE, { dateStyle: "medium", timeStyle: "short", timeZone: timeZoneName }).format(
    new Date(iso),
  );

/** The same time in UTC, to the second: "2026-11-22 06:30:00 UTC". */
export const utc = (iso) => `${new Date(iso).toISOString().slice(0, 19).replace("T", " ")} UTC`;

/** A UTC day without the year: "Nov 22". */
export const day = (iso) =>
  new Intl.DateTimeFormat(LANGUAGE, { month: "short", day: "numeric", timeZone: "UTC" }).format(new Date(iso));
