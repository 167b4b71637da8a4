/* The search page: asks Pagefind's index of the site, and lists the pages it finds. */
import * as pagefind from "../pagefind/pagefind.js";

const SHOWN = 20;
const SECTIONS = 3;
const DELAY = 150; // milliseconds between the last key and the search
// These words say nothing about what is looked for.
const LITTLE = new Set(
  `a an and any are as at be by can could did do does for from has have how i if in is it its me my
  of on or our should so that the their them there these they this to was we were what when where
  which who why will with would you your`.split(/\s+/),
);

/** Return the pages that have all words of a query, best first, and then those that have some of them. */
export async function find(query) {
  const given = query.split(/\s+/).filter(Boolean);
  const telling = given.filter((word) => !LITTLE.has(word.toLowerCase().replace(/\W+$/, "")));
  const words = telling.length ? telling : given;
  const { results: all } = await pagefind.search(words.join(" "));
  if (words.length < 2) return { all, some: [] };
  const known = new Set(all.map((page) => page.id));
  const scores = new Map();
  for (const word of words) {
    const { results } = await pagefind.search(word);
    for (const page of results.filter((one) => !known.has(one.id))) {
      const score = (scores.get(page.id)?.score ?? 0) + page.score;
      scores.set(page.id, { page, score });
    }
  }
  const some = [...scores.values()].toSorted((one, other) => other.score - one.score);
  return { all, some: some.map((found) => found.page) };
}

/** Return how well a section of a page answers the query. */
const score = (section) => section.weighted_locations.reduce((sum, one) => sum + one.balanced_score, 0);

function link(found) {
  const made = document.createElement("a");
  made.href = found.url;
  made.textContent = found.title;
  return made;
}

function excerpt(found) {
  const made = document.createElement("p");
  made.innerHTML = found.excerpt; // Pagefind escapes the text, and marks the words
  return made;
}

/** Return the list item of a page: its title, its best sections, and the text around the found words. */
function item(page) {
  const made = document.createElement("li");
  const title = document.createElement("h2");
  title.append(link({ url: page.url, title: page.meta.title }));
  made.append(title);
  const sections = page.sub_results.toSorted((one, other) => score(other) - score(one));
  for (const [number, section] of sections.slice(0, SECTIONS).entries()) {
    if (section.title !== page.meta.title) {
      const heading = document.createElement("h3");
      heading.append(link(section));
      made.append(heading);
    }
    if (number === 0) made.append(excerpt(section));
  }
  return made;
}

function sentence(all, some) {
  const shown = all + some > SHOWN ? ` The first ${SHOWN} are shown.` : "";
  if (!some) return `${all} page${all === 1 ? "" : "s"}.${shown}`;
  return `Pages with all of these words: ${all}. With some of them: ${some}.${shown}`;
}

async function show(query) {
  const { all, some } = query ? await find(query) : { all: [], some: [] };
  const pages = await Promise.all([...all, ...some].slice(0, SHOWN).map((result) => result.data()));
  if (query !== input.value.trim()) return; // a newer query is on its way
  list.replaceChildren(...pages.map(item));
  status.textContent = query ? sentence(all.length, some.length) : "";
}

const input = document.querySelector(".search-form input");
const status = document.querySelector(".search-status");
const list = document.querySelector(".search-results");
let timer;

function changed() {
  const query = input.value.trim();
  history.replaceState(null, "", query ? `?q=${encodeURIComponent(query)}` : location.pathname);
  show(query);
}

input.addEventListener("input", () => {
  clearTimeout(timer);
  timer = setTimeout(changed, DELAY);
});
input.form.addEventListener("submit", (event) => {
  event.preventDefault();
  clearTimeout(timer);
  changed();
});
input.value = new URLSearchParams(location.search).get("q") ?? "";
if (!input.value) input.focus();
show(input.value.trim());
