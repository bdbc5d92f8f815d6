"""`python plan.py …` in a checkout; the same program as the installed `trainplan`."""

import sys

from planner.__main__ import run

if __name__ == "__main__":
    sys.exit(run())
