"""The view in words."""

from __future__ import annotations

from building import US, Building, stream
from tracehound.ui.state.view import View
from tracehound.ui.wording.event_facts import describe_selection, event_facts
from tracehound.ui.wording.messages import fit_name_and_parts


def test_from_the_most_particular_to_the_run() -> None:
    b = Building()
    b.event(stream(), "bad\x1b[31mname", 1000, 1012.5)
    b.event(stream(), "k", 1020, 1030)
    trace = b.trace()
    lane = int(trace.lanes["lane"][0])
    assert describe_selection(trace, View()) == ("2 events on 1 lane", "30.0 us")
    assert describe_selection(trace, View(lane=lane)) == ("stream 7", "stream", "2 events")
    assert describe_selection(trace, View(selection=(0, 2 * US)))[0] == "2.000 us selected"
    words = describe_selection(trace, View(event=0, selection=(0, US)))
    assert words == ("bad␛[31mname", "12.50 us", "at 0.000 us", "kernel", "stream 7")


def test_a_fused_kernel_has_a_fact_for_its_operators() -> None:
    b = Building()
    b.event(stream(), "triton_poi_fused__to_copy_add_1", 0, 10)
    b.event(stream(), "triton_poi_fused_moe_forward_2", 20, 30)
    first, second = ({fact.label: fact.words for fact in event_facts(b.trace(), event)[0].facts} for event in (0, 1))
    assert first["fused operators"] == "_to_copy, add"
    assert "fused operators" not in second


ADD = "void at::native::vectorized_elementwise_kernel<4, at::native::AddFunctor<float>, Array<char*, 3> >(int, float)"


def test_a_name_gives_up_its_template_and_then_its_lane_but_not_how_long_it_took() -> None:
    parts = (ADD, "1.000 us", "at 533.645 ms", "kernel", "stream 7")
    for width in range(1, 200):
        assert len(fit_name_and_parts(parts, width, "·")) <= width
    assert fit_name_and_parts(parts, 200, "·") == " · ".join(parts)
    assert (
        fit_name_and_parts(parts, 90, "·")
        == "vectorized_elementwise_kernel[AddFunctor] · 1.000 us · at 533.645 ms · kernel · stream 7"
    )
    method = ("CommonPjRtLoadedExecutable::Execute", *parts[1:])
    assert fit_name_and_parts(method, 64, "·") == "CommonPjRtLoadedExecutable::Execute · 1.000 us · at 533.645 ms"
    assert fit_name_and_parts(parts, 52, "·") == "vectorized_eleme…Functor] · 1.000 us · at 533.645 ms"
    assert fit_name_and_parts(parts, 48, "·") == "vectorized_ele…nctor] · 1.000 us · at 533.645 ms"
    assert fit_name_and_parts(parts, 37, "·") == "vectorized_elemen…Functor] · 1.000 us"
    assert fit_name_and_parts(("gemm", *parts[1:]), 24, "·") == "gemm · 1.000 us"
