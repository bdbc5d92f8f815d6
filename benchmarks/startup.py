"""Cold-process time of the main jobs: `python -m benchmarks.startup`, as benchmarks.speed says."""

from __future__ import annotations

import sys

from benchmarks import speed

if __name__ == "__main__":
    speed.main(["start", "--runs", "11", *sys.argv[1:]])
