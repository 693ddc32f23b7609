"""What is chosen of an analysis: read as people write it, or refused in one line."""

from __future__ import annotations

import pickle

import pytest

from tracehound.analysis import ANALYSES, Analysis
from tracehound.analysis.analysis_settings import (
    Setting,
    one_of,
    parse_choices,
    parse_pattern,
    parse_time_length,
    parse_whole_number,
)
from tracehound.errors import TracehoundError

SETTINGS = (
    Setting("delay", "30us", "a time", parse_time_length),
    Setting("least", "10", "a number", parse_whole_number),
    Setting("by", "name", "a word", one_of("name", "shape")),
    Setting("group", "^nccl", "a pattern", parse_pattern),
)


def test_choices_are_read_as_people_write_them() -> None:
    given = parse_choices(SETTINGS, ["delay=1.5ms", "least=1,000", "by=shape", "group=all.?reduce"])
    delay, least, by, group = SETTINGS
    assert (delay.of(given), least.of(given), by.of(given)) == (1_500_000_000, 1000, "shape")
    assert group.of(given).search("ncclDevKernel_AllReduce_Sum")
    assert not group.of(()).search("AllReduce")
    assert (delay.of(()), least.of(())) == (30_000_000, 10)


def test_the_last_choice_counts_and_their_order_does_not() -> None:
    assert parse_choices(SETTINGS, ["least=1", "delay=1us", "least=2"]) == parse_choices(
        SETTINGS, ["delay=1us", "least=2"]
    )


def test_an_older_name_of_a_choice_is_that_choice() -> None:
    settings = (Setting("by", "name", "a word", one_of("name", "rematerialized")), SETTINGS[3])
    words = ["by=rematerialised", "group=rematerialised"]  # a pattern stays as it is
    assert parse_choices(settings, words) == (("by", "rematerialized"), ("group", "rematerialised"))


@pytest.mark.parametrize(
    ("word", "why"),
    [
        ("dealy=1us", "no setting 'dealy'; did you mean delay=...?"),
        ("delay", "no value for the setting delay; write delay=..."),
        ("zzz=1", "no setting 'zzz'; there are delay, least, by, group"),
        ("delay=5", "delay: '5' is not a time; write a number and a unit"),
        ("delay=-5us", "delay: '-5us' is less than no time"),
        ("least=-1", "least: '-1' is not a whole number"),
        ("by=color", "by: 'color' is not one of name, shape"),
        ("group=(", "group: '(' is not a regular expression"),
    ],
)
def test_what_cannot_be_chosen_is_said_in_one_line(word: str, why: str) -> None:
    with pytest.raises(TracehoundError) as raised:
        parse_choices(SETTINGS, [word])
    assert why in str(raised.value)


@pytest.mark.parametrize("analysis", ANALYSES, ids=lambda a: a.name)
def test_an_analysis_can_be_sent_to_another_process(analysis: Analysis) -> None:
    assert analysis.name.encode() in pickle.dumps(analysis)
