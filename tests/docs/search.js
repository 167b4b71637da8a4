// Print the first pages that the search of a built site finds: node search.js SITE QUESTION…
const fs = require("fs");
const vm = require("vm");

const [site, ...questions] = process.argv.slice(2);
const scripts = ["base-stemmer", "english-stemmer", "language_data", "searchtools"].map((name) => `_static/${name}.js`);
const code = [...scripts, "searchindex.js"].map((path) => fs.readFileSync(`${site}/${path}`, "utf8"));
const find = `(question) => Search._performSearch(...Search._parseQuery(question)).reverse()`;
const page = { document: { getElementById: () => null }, _: (text) => text, _ready() {}, SPHINX_HIGHLIGHT_ENABLED: false };
const search = vm.runInNewContext(["var window = globalThis", ...code, find].join(";\n"), page);
const pages = (question) => search(question).slice(0, 3).map(([name]) => name);
console.log(JSON.stringify(Object.fromEntries(questions.map((question) => [question, pages(question)]))));
