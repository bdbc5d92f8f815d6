"""`python -m planner …`, `python plan.py …` and the installed `trainplan` are one program."""

import gc
import sys


def run() -> int:
    """Run the command line with the garbage collector out of its way.

    SymPy leaves some hundred thousand objects that live until the end. Collecting them
    again and again while they are made, and once more at exit, takes a quarter of a short
    run; the threshold still bounds a long one.
    """
    gc.set_threshold(300_000)
    from planner.cli import main

    try:
        return main()
    finally:
        gc.freeze()


if __name__ == "__main__":
    sys.exit(run())
