/*
 * Rank guides before the reference from docstrings, and classes for DAGs before what is behind them.
 * The theme loads this after searchtools.js, which defines Scorer.
 */
const PENALTIES = [
  [/^api\/(operators|sensor|hook|exceptions)/, 8],
  [/^api\//, 20],
  [/^(internals\/|contributing$|changes$)/, 8],
];
Scorer.score = ([docname, , , , score]) => {
  const found = PENALTIES.find(([pattern]) => pattern.test(docname));
  return found ? score - found[1] : score;
};
