"""The command `hlo`, as a person and a program meet it, on the project's own traces."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tracehound.cli.main import main
from tracehound.errors import TracehoundError
from tracehound.report.hlo_report import split_hlo_arguments


@pytest.fixture
def profile(samples: Path) -> str:
    return str(samples / "jax_cpu8_b128")


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(["hlo", *words, "--width", "100"]) == 0
    return capsys.readouterr().out


def test_the_programs_of_a_trace(profile: str, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [line.split() for line in printed(capsys, profile).splitlines()[1:3]]
    assert rows[0][:5] == ["program", "instructions", "fusions", "collectives", "computations"]
    assert rows[1][:5] == ["jit_train_step(0)", "1,990", "169", "1", "203"]


def test_the_text_of_a_program(profile: str, capsys: pytest.CaptureFixture[str]) -> None:
    lines = printed(capsys, profile, "jit_train_step").splitlines()
    assert lines[0].startswith(
        "HloModule jit_train_step, is_scheduled=true, entry_computation_layout={(f32[256,64]{1,0}, "
    )
    assert sum(line.startswith("  ") for line in lines) == 1990
    assert sum(line.startswith("ENTRY %main") for line in lines) == 1
    assert lines[-1] == "}"
    fenced = printed(capsys, profile, "jit_train_step(0)", "--format", "markdown").splitlines()
    assert fenced == ["```hlo", *lines, "```"]
    rows = json.loads(printed(capsys, profile, "0", "--format", "json", "--top", "7"))
    assert (len(rows["rows"]), rows["rows_total"]) == (7, 1990)


@pytest.mark.parametrize("trace", ["jax_cpu8_b128", "jax_cpu8_b4096"])
def test_an_all_reduce_says_who_takes_part(samples: Path, trace: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(capsys, str(samples / trace), "all-reduce.11")
    assert "every device ends with the sum over its group" in text
    assert "1 group of 8: {0,1,2,3,4,5,6,7}; the numbers are positions in the device assignment" in text
    assert "each device gives 512 KiB in 11 arrays" in text
    assert "all of its devices are in this profile: 8" in text
    assert "executions: 32 on 8 ranks" in text
    assert "/srv/demo/jax_train.py:83   train_step" in text


def test_a_fusion_is_opened(profile: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(capsys, profile, "%ynn_fusion.8")
    inside = text.split("Inside %ynn_fusion.8")[1].split("Around")[0]
    assert [line.split()[0] for line in inside.splitlines()[1:5]] == [
        "instruction",
        "%param_0.8",
        "%param_1.8",
        "%dot.97",
    ]
    assert "= %copy_bitcast_fusion.8" in inside
    assert "f32[256,64]{1,0}" in inside
    page = json.loads(printed(capsys, profile, "jit_train_step", "ynn_fusion.8", "--format", "json", "--depth", "3"))
    assert page["schema"] == "tracehound.hlo/1"
    assert page["results"]["words"]["notes"] == ["custom fusion of 1 instruction: 1 dot"]
    around = page["results"]["neighbourhood"]["rows"]
    assert {row["depth"] for row in around} == {0, 1, 2, 3}


@pytest.mark.parametrize(("words", "said"), [
    (["all-reduce.12"], "did you mean all-reduce.11"),
    (["jit_train_stop"], "did you mean jit_train_step"),
    (["jit_g", "all-reduce.11"], "no program 'jit_g'; name one of jit_train_step(0)"),
    (["a", "b", "c"], "a program and an instruction at most"),
    (["x\x1b[31m"], "instruction 'x␛[31m'"),
])  # fmt: skip
def test_what_is_in_no_program_is_said(
    profile: str, words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["hlo", profile, *words]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert "\x1b" not in error
    assert error.count("\n") == 1


def test_a_trace_without_programs_says_what_would_have_recorded_them(
    samples: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["hlo", str(samples / "torch_stacks")]) == 2
    assert "enable_hlo_proto" in capsys.readouterr().err


def test_an_op_of_several_programs_is_shown_where_it_ran_most(shared: Path, capsys: pytest.CaptureFixture[str]) -> None:
    gemm = str(shared / "traces" / "xla" / "jax_rocm_gemm")
    text = printed(capsys, gemm, "custom-call.1")
    assert "also in: jit_dot(" in text
    assert "__cublas$gemm" in text


def test_a_host_offload_is_told_from_work(shared: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(capsys, str(shared / "traces" / "xla" / "tpu_v6e_x4_offload"), "copy-done.4")
    assert "copies 5.00 GiB from host memory to device memory" in text
    assert "not at the speed of the device's memory" in text
    assert "HBM" not in text
    assert "executions: 400 on 4 ranks, 77.8 s in all" in text
    text = printed(capsys, str(shared / "traces" / "xla" / "tpu_v6e_x4_offload"), "all-reduce")
    assert "4 groups of 2: {0,4} {1,5} {2,6} {3,7}" in text
    assert "the program runs on 8 devices, of which 4 are in this profile" in text
    assert "4 of 4 groups reach devices that are not: those of another host" in text


def test_paths_end_where_a_word_is_none() -> None:
    known = {"a.pb", "b.pb", "f"}
    assert split_hlo_arguments(["a.pb", "b.pb", "jit_f", "add"], known.__contains__) == (
        ["a.pb", "b.pb"],
        ["jit_f", "add"],
    )
    assert split_hlo_arguments(["missing"], known.__contains__) == (["missing"], [])
    with pytest.raises(TracehoundError):
        split_hlo_arguments(["a.pb", "jit_f", "f"], known.__contains__)
