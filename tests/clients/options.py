"""The options that the runners share, and the conditions that these set up for the time of a run."""

import contextlib
import os
import pwd
import re
import shlex
import signal
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))


def add(parser):
    parser.add_argument("-k", metavar="PATTERN", default="", help="only cases whose name matches (regular expression)")
    parser.add_argument("--repeat", type=int, default=1, metavar="N", help="every case N times")
    parser.add_argument("--one-core", action="store_true", help="everything on one core")
    parser.add_argument("--load", action="store_true", help="a busy loop on each core beside")
    parser.add_argument("--user", help="run the programs as this user (needs root)")
    parser.add_argument("--launcher", default=shlex.quote(os.path.join(ROOT, "build/bin/verbena")) + " run --",
                        help="what the programs are started with (default: %(default)s); empty: the system's libraries")


def select(options, cases, name):
    """Those cases whose name(case) matches; ends the program when there is none."""
    return [case for case in cases if re.search(options.k, name(case))] or sys.exit(f"no case matches {options.k}")


def launcher(options):
    """The launcher's words; ends the program when it is not there."""
    words = shlex.split(options.launcher)
    if words and not os.access(words[0], os.X_OK):
        sys.exit(f"{words[0]} is not there: build first")
    if options.user:
        user = pwd.getpwnam(options.user)
        words = ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups", "--", *words]
    return words


def clean_up_when_told_to_end():
    """Lets SIGTERM and SIGHUP end the program as an exit does, so that what it started and made goes with it."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, _: sys.exit(128 + number))


@contextlib.contextmanager
def conditions(options):
    """The environment, the cores and the load of a run."""
    os.environ.setdefault("VERBENA_LOG", "warn")
    cores = os.sched_getaffinity(0)
    loops = []
    try:
        if options.load:
            for core in cores:
                loops.append(subprocess.Popen(["taskset", "-c", str(core), "sh", "-c", "while :; do :; done"]))
        if options.one_core:
            os.sched_setaffinity(0, {min(cores)})
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()
