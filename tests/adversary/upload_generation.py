"""Hypothesis strategies for nights of uploads."""

from __future__ import annotations

from hypothesis import strategies as st

from tests.adversary.night_generation import OPTIONS, WEATHERS
from tests.adversary.upload_inputs import Change, File
from tests.adversary.upload_nights import UploadNight, UploadTry

NAMES = (
    *("a.txt", "b.txt", "de/a.txt", "en/a.txt", "de-a.txt", "en/de/a.txt", "en-de/a.txt", "README", "de/README"),
    *("Refund policy.md", 'q"uote.txt', "new\nline.txt", "\r.txt", "grün.txt", "gru\u0308n.txt", "退款.pdf", "💡.md"),
    *("..txt.", " ", "a;b.txt", "a\\b.txt", "%41.txt", "*.txt", "[a].txt", "\u202egpj.exe", "x" * 250, "ä" * 120),
    *(".hidden", "_SUCCESS", ".git/config", "_tmp/a.txt", "\udcff.txt", "de/\udc80"),
)


def _files(chosen: list[tuple[str, bool]]) -> tuple[File, ...]:
    return tuple(File(name, 0 if is_empty else number) for number, (name, is_empty) in enumerate(chosen, start=1))


# Names that could become the same file name in the request.
ALIKE = NAMES[:9]
FILES = st.lists(
    st.tuples(st.one_of(st.sampled_from(NAMES), st.sampled_from(ALIKE)), st.sampled_from([False] * 9 + [True])),
    max_size=8,
    unique_by=lambda one: one[0],
).map(_files)
CHANGES = st.builds(
    Change,
    st.integers(0, 7),
    st.sampled_from(["grows", "shrinks", "vanishes", "becomes empty", "becomes a folder"]),
    st.integers(-1, 5),
)
UPLOAD_TRIES = st.builds(
    UploadTry,
    weather=WEATHERS,
    changes=st.lists(CHANGES, max_size=2).map(tuple),
)
UPLOAD_NIGHTS = st.builds(
    UploadNight,
    files=FILES,
    tries=st.lists(UPLOAD_TRIES, min_size=1, max_size=2).map(tuple),
    options=OPTIONS,
    is_retried=st.sampled_from([True, True, True, False]),
    allow_empty=st.booleans(),
)
