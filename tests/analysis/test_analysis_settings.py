"""What is chosen of an analysis: read as people write it, or refused in one line."""

from __future__ import annotations

import pickle

import pytest

from tracehound.analysis import ANALYSES, Analysis
from tracehound.analysis.analysis_settings import (
    Setting,
    choice_parser,
    parse_pattern,
    parse_settings,
    parse_time_length,
    parse_whole_number,
)
from tracehound.errors import TracehoundError

SETTINGS = (
    Setting("delay", "30us", "a time", parse_time_length),
    Setting("least", "10", "a number", parse_whole_number),
    Setting("by", "name", "a word", choice_parser("name", "shape")),
    Setting("group", "^nccl", "a pattern", parse_pattern),
)


def test_choices_are_read_as_people_write_them() -> None:
    given = parse_settings(SETTINGS, ["delay=1.5ms", "least=1,000", "by=shape", "group=all.?reduce"])
    delay, least, by, group = SETTINGS
    assert (delay.value_in(given), least.value_in(given), by.value_in(given)) == (1_500_000_000, 1000, "shape")
    assert group.value_in(given).search("ncclDevKernel_AllReduce_Sum")
    assert not group.value_in(()).search("AllReduce")
    assert (delay.value_in(()), least.value_in(())) == (30_000_000, 10)


def test_the_last_choice_counts_and_their_order_does_not() -> None:
    assert parse_settings(SETTINGS, ["least=1", "delay=1us", "least=2"]) == parse_settings(
        SETTINGS, ["delay=1us", "least=2"]
    )


def test_an_older_name_of_a_choice_is_that_choice() -> None:
    settings = (Setting("by", "name", "a word", choice_parser("name", "rematerialized")), SETTINGS[3])
    words = ["by=rematerialised", "group=rematerialised"]  # a pattern stays as it is
    assert parse_settings(settings, words) == (("by", "rematerialized"), ("group", "rematerialised"))


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
        parse_settings(SETTINGS, [word])
    assert why in str(raised.value)


@pytest.mark.parametrize("analysis", ANALYSES, ids=lambda a: a.name)
def test_an_analysis_can_be_sent_to_another_process(analysis: Analysis) -> None:
    assert analysis.name.encode() in pickle.dumps(analysis)
