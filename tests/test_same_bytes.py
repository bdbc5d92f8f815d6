"""One interpreter under hash seeds, locales, time zones, encodings and ground types of SymPy.

benchmarks/same_bytes.py adds other interpreters and an installed wheel.
"""

from __future__ import annotations

import sys

import pytest

from benchmarks.same_bytes import differences


@pytest.mark.slow
def test_reports_are_the_same_bytes_in_all_surroundings() -> None:
    assert differences([sys.executable], wheel=False, plans=["mixtral8x7b_h100x1024"]) == []
