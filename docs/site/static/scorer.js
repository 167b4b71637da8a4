// Sphinx's scores, less for pages that are not guides: who searches asks how to do something.
const WEIGHTS = {
  api: 0.2, changes: 0.2, conduct: 0.2, contributing: 0.2, examples: 0.4, index: 0.6, internals: 0.5, reference: 0.6,
};
var Scorer = {
  score: ([page, , , , score]) => score * (WEIGHTS[page.split("/")[0]] ?? 1),
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
