"""Each command says what it takes."""

from __future__ import annotations

import contextlib

import pytest

from planner.cli.main import COMMANDS, main


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_says_its_options_and_no_dictionary(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A percent sign in a help text is a format for argparse."""
    with contextlib.suppress(SystemExit):
        assert main([command, "--help"]) == 0
    said, faults = capsys.readouterr()
    assert said.startswith("usage: ") and f" {command} " in said and not faults
    assert "'option_strings'" not in said


def test_the_name_alone_prints_what_to_try_first(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    said, faults = capsys.readouterr()
    assert not faults and len(said.splitlines()) <= 12
    assert sum(line.startswith("  plan.py ") for line in said.splitlines()) == 4
