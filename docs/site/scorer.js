/* Guides come before the reference from docstrings, and what users call before what is behind it. */
const PENALTIES = [
  [/^api\/(operators|sensors|hooks|exceptions)/, 8],
  [/^api\//, 20],
  [/^(architecture|benchmarks|contributing|changes)$/, 8],
];
const Scorer = {
  score: ([docname, , , , score]) => {
    const found = PENALTIES.find(([pattern]) => pattern.test(docname));
    return found ? score - found[1] : score;
  },
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
