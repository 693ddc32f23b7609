"""Which words name a source line."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracehound.ui.source_files import SourceLine, parse_source_line, split_stack


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ("torch/nn/modules/linear.py(114): forward", SourceLine("torch/nn/modules/linear.py", 114, "forward")),
        ("train.py(54): <module>", SourceLine("train.py", 54, "<module>")),
        (r"C:\lab\my model (2).py(7): step", SourceLine(r"C:\lab\my model (2).py", 7, "step")),
        ("$pxla.py:221 batched_device_put", SourceLine("pxla.py", 221, "batched_device_put")),
        ("/srv/demo/jax_train.py:69", SourceLine("/srv/demo/jax_train.py", 69)),
        ("vllm/attention.py:262:8", SourceLine("vllm/attention.py", 262)),
    ],
)
def test_spellings(words: str, line: SourceLine) -> None:
    assert parse_source_line(words) == line


@pytest.mark.parametrize(
    "words",
    [
        "", "aten::addmm", "<built-in method empty of type object at 0x7fba>", "<frozen importlib._bootstrap>(241): f",
        "<string>(1): <module>", "<embedded module '_launcher'>:153:2", "nn.Module: Linear_0", "12:30",
        "train.py(0): f", "train.py", "a.py(1): f\nb.py(2): g", "$<unknown>",
        f"{'a' * 5000}.py(1): f", "x.py(99999999999): f",
    ],
)  # fmt: skip
def test_what_is_none(words: str) -> None:
    assert parse_source_line(words) is None


def test_a_stack_is_written_in_lines_or_between_semicolons() -> None:
    assert split_stack("a.py(1): f;b.py(2): g") == ["a.py(1): f", "b.py(2): g"]
    assert split_stack("a.py:1:2\nb;c.py:2:3\n") == ["a.py:1:2", "b;c.py:2:3"]
    assert split_stack("") == []


@given(st.text(max_size=60))
def test_any_words_are_taken(words: str) -> None:
    line = parse_source_line(words)
    assert line is None or (line.line > 0 and line.file in words)
