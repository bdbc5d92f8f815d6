"""`python -m planner …`, `python plan.py …` and the installed `trainplan` are one program."""

import gc
import os
import sys

# The module `signal` takes milliseconds to load, in which an interrupt would print a traceback.
from _signal import (  # type: ignore[import-not-found]
    SIG_DFL,
    SIGINT,
    default_int_handler,
    getsignal,
    signal,
)


def run() -> int:
    """Run the command line with the garbage collector out of its way.

    SymPy leaves some hundred thousand objects that live until the end. Collecting them
    again and again while they are made, and once more at exit, takes a quarter of a short
    run; the threshold still bounds a long one.

    While nothing is begun yet, and when all is done, an interrupt ends the process as it ends
    other programs, without a traceback.
    """
    interruptible = getsignal(SIGINT) is default_int_handler
    if interruptible:
        signal(SIGINT, SIG_DFL)
    gc.set_threshold(600_000)
    _streams()
    _byte_code()
    from planner.cli.main import main

    try:
        if interruptible:
            signal(SIGINT, default_int_handler)
        return main()
    except KeyboardInterrupt:
        return 130
    finally:
        if interruptible:
            signal(SIGINT, SIG_DFL)
        gc.freeze()


def _byte_code() -> None:
    """Where Python is told to write none beside the sources, as in containers, that of this
    program is kept among a user's caches: to compile all of it takes as long as the rest."""
    if sys.dont_write_bytecode and sys.pycache_prefix is None:
        from planner.base import resources

        sys.pycache_prefix = str(resources.cache() / "bytecode")
        sys.dont_write_bytecode = False


def _streams() -> None:
    """Into a file or pipe the same bytes under every locale; a terminal shows what it can."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:  # closed by the caller
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
        elif stream.isatty():
            stream.reconfigure(errors="replace")
        else:
            stream.reconfigure(encoding="utf-8", errors="backslashreplace", newline="\n")


if __name__ == "__main__":
    sys.exit(run())
