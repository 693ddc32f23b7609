"""Names of kernels as findings get them: against the analysis `kernels`."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from building import Building, stream
from tracehound.analysis import get_analysis, run_analysis
from tracehound.analysis.findings.classified_kernels import CLASSIFIED_KERNELS

work = st.lists(
    st.tuples(
        st.integers(0, 1),
        st.sampled_from(["s16816gemm", "Memcpy", "layer_norm"]),
        st.integers(1, 9),
        st.sampled_from(["kernel", "copy"]),
    ),
    max_size=7,
)


@given(work)
def test_rows_are_those_of_kernels(events: list[tuple[int, str, int, str]]) -> None:
    b = Building()
    for number, (rank, name, length, kind) in enumerate(events):
        b.event(stream(rank), name, 100 * number, 100 * number + length, kind)
    trace = b.trace()
    found = run_analysis(CLASSIFIED_KERNELS, trace).table
    assert found.equals(run_analysis(get_analysis("kernels"), trace).table.select(found.columns))
