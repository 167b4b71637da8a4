"""Models of the judges in a summary, a part of ``summary.json``."""

from __future__ import annotations

from airflow_provider_assistant.evaluation.verdict import Model


class Agreement(Model):
    """
    Agreement of a judge with people, over the labels that the judge has judged.

    :param labels: Number of labels for which the judge has a verdict. The four counts below add up to it.
    :param ties: Number of answers which as many people pass as fail. They are left out.
    :param only_human: Number of labels that pass, and fail the judge.
    :param only_judge: Number of labels that fail, and pass the judge.
    :param kappa: Cohen's kappa; None if both people and judge gave only one and the same verdict, or without labels.
    :param low: Lower end of the 95 % interval of kappa.
    :param true_pass_rate: Share of the labels that pass which also pass the judge; None without such labels.
    :param true_pass_low: Lower end of its 95 % interval.
    :param true_fail_rate: Share of the labels that fail which also fail the judge; None without such labels.
    :param true_fail_low: Lower end of its 95 % interval.
    """

    labels: int
    both_pass: int
    only_human: int
    only_judge: int
    both_fail: int
    kappa: float | None
    low: float | None
    high: float | None
    true_pass_rate: float | None
    true_fail_rate: float | None
    true_pass_low: float | None = None
    true_pass_high: float | None = None
    true_fail_low: float | None = None
    true_fail_high: float | None = None
    ties: int = 0


class PairCounts(Model):
    """
    Counts of a judge that compares answers with those of the baseline. The counts add up to ``pairs``.

    A judge is asked about each pair in both orders. ``order_changed`` counts as a tie, and shows the judge's position
    bias. Every repetition of a question is a pair.

    :param pairs: Number of answers for which the baseline has an answer to the same repetition of the same question.
    :param wins: Number of pairs of which the new answer is better in both orders.
    :param losses: Number of pairs of which the answer of the baseline is better in both orders.
    :param ties: Number of pairs of which neither answer is better in either order.
    :param identical: Number of pairs of identical answers, about which the judge is not asked.
    :param errors: Number of pairs without a verdict in at least one order.
    :param first_preferred: Share of the verdicts for an answer that name the first one, over the pairs with both
        verdicts: 0.5 without position bias, 1 if the judge always prefers the first; None without such verdicts.
    """

    pairs: int
    wins: int
    losses: int
    ties: int
    order_changed: int
    identical: int
    errors: int
    first_preferred: float | None

    @property
    def equal(self) -> int:
        """Number of pairs of which neither answer counts as better."""
        return self.ties + self.order_changed + self.identical


class JudgeSummary(Model):
    """
    How a judge came to its verdicts. Verdicts are comparable only if the first three fields are equal.

    :param rubric: Text of the rubric.
    :param input_tokens: Number of tokens of the prompts; also of those about the answers of the baseline, if these were
        judged as well.
    :param cost: Cost of these tokens at the given price; None without a price, or if the host does not report tokens.
    :param agreement: Agreement with people; None without labels.
    :param pairs: Counts of a judge that compares two answers; None for other judges.
    """

    model: str
    rubric: str
    prompt_version: int
    input_tokens: int
    output_tokens: int
    cost: float | None = None
    agreement: Agreement | None = None
    pairs: PairCounts | None = None

    def with_cost_of(self, other: JudgeSummary) -> JudgeSummary:
        """Return this summary with the tokens and the cost of both."""
        cost = None
        if self.cost is not None and other.cost is not None:
            cost = self.cost + other.cost
        tokens = {
            "input_tokens": self.input_tokens + other.input_tokens,
            "output_tokens": self.output_tokens + other.output_tokens,
            "cost": cost,
        }
        return self.model_copy(update=tokens)

    def judges_like(self, other: JudgeSummary | None) -> bool:
        """Return whether the verdicts of another evaluation are comparable with these."""
        if other is None:
            return False
        mine = (self.model, self.rubric, self.prompt_version)
        return mine == (other.model, other.rubric, other.prompt_version)
