"""Several tasks that load the same rows at the same time."""

from __future__ import annotations

import pytest

HALF, ROWS = range(300), range(450)


@pytest.mark.parametrize("overlap", [range(150, 450), range(300)])
def test_two_tasks_post_no_row_twice(overlap, case, measured):
    one = case.attempt(HALF, task_id="one")
    other = case.attempt(overlap, task_id="other")
    loaders = [case.start(one), case.start(other)]
    ends = [loader.wait() for loader in loaders]
    results = [ended.result for ended in ends]
    assert all(results), [ended.trace for ended in ends]
    audit = case.audit(range(max(HALF.stop, overlap.stop)), one)
    audit.honest()
    assert not audit.missing
    assert not audit.duplicates
    assert sum(result["created"] for result in results) == len(case.documents())
    for result in results:
        assert result["created"] + result["skipped"] + result["unchanged"] == len(HALF)
    measured(skipped=sum(result["skipped"] for result in results), duplicates=audit.duplicates)


def test_one_of_them_is_killed(case, measured):
    one = case.attempt(HALF, task_id="one")
    other = case.attempt(range(150, 450), task_id="other")
    loaders = [case.start(one), case.start(other)]
    case.wait_for(150)
    loaders[0].kill()
    loaders[0].wait()
    skipped = loaders[1].wait().result["skipped"]
    case.run(one)
    audit = case.audit(ROWS, one)
    audit.complete()
    measured(skipped=skipped, listed=len(audit.suspected), duplicates=audit.duplicates)
