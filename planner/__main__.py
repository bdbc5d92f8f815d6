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
    """Redirect byte code to a folder among the user's caches if Python is told to write none beside
    the sources, as in containers: compiling all modules takes as long as the rest of a run."""
    if sys.dont_write_bytecode and sys.pycache_prefix is None:
        from planner.base import resources

        folder = resources.make_code_folder("modules")
        if folder is not None:
            sys.pycache_prefix, sys.dont_write_bytecode = str(folder), False


def _streams() -> None:
    """Set up the standard streams: files and pipes get the same bytes under every locale. A stream
    that the caller closed is opened empty, in this order, so that no other file takes its
    number."""
    for name, how in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, how, encoding="utf-8"))  # noqa: SIM115
        elif name == "stdin":
            continue
        elif stream.isatty():
            stream.reconfigure(errors="replace")
        else:
            stream.reconfigure(encoding="utf-8", errors="backslashreplace", newline="\n")


if __name__ == "__main__":
    sys.exit(run())
