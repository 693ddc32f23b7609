"""Classes of kernels in the user's configuration file."""

from __future__ import annotations

from pathlib import Path

import pytest

from building import Building, stream
from tracehound.analysis import Options, get_analysis, run_analysis
from tracehound.config import configured_settings
from tracehound.errors import TracehoundError


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    path = tmp_path / "tracehound" / "config.toml"
    path.parent.mkdir()
    return path


def test_without_a_file_nothing_is_chosen(file: Path) -> None:
    assert not file.exists()
    assert configured_settings(get_analysis("kernels")) == ()


def test_classes_of_the_file_are_those_of_the_analysis(file: Path) -> None:
    file.write_text('[keys]\n[kernels.classes]\nmoe = "expert|router:1"\ncommunication = "my_exchange"\n')
    b = Building()
    b.event(stream(), "my_exchange", 0, 10)
    b.event(stream(), "expert_gemm", 10, 15)
    given = configured_settings(get_analysis("kernels"))
    table = run_analysis(get_analysis("kernels"), b.trace(), options=Options(None, given)).table
    assert table.select("class", "type").rows() == [("communication", "communication"), ("moe", "computation")]
    assert configured_settings(get_analysis("overlap")) == given
    assert configured_settings(get_analysis("gaps")) == ()
    assert dict(configured_settings(get_analysis("kernels"), ["classes=", "by=rank"])) == {"classes": "", "by": "rank"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[kernels.classes]\nmoe = "("\n', r"line 2: kernels\.classes\.moe: not a regular expression"),
        ("[kernels.classes]\nmoe = 3\n", r"line 2: kernels\.classes\.moe: not a regular expression"),
        ('[kernels.classes]\nmoe = "a;b"\n', r"line 2: kernels\.classes\.moe: a name may hold no colon"),
        ("[kernels]\nclasses = 3\n", r"line 2: kernels\.classes: not a table"),
        ("kernels = 3\n", r"kernels\.classes: not a table"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(file: Path, text: str, said: str) -> None:
    file.write_text(text)
    with pytest.raises(TracehoundError) as caught:
        configured_settings(get_analysis("kernels"))
    caught.match(rf"config\.toml.*{said}")
