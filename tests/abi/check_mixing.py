#!/usr/bin/env python3
"""check_mixing.py LOADER IBVERBS RDMACM FOREIGN_IBVERBS: the two libraries go together.

LOADER is a program that opens the library named by its argument. Our librdmacm over somebody else's libibverbs must
fail at load, and the message must name our version node; so must it over the distribution's, if there is one. Our pair
must load. (Our libibverbs under somebody else's librdmacm does load: plain verbs programs may keep it, and that
librdmacm finds no kernel device.)"""
import glob
import os
import shutil
import subprocess
import sys
import tempfile


def load(loader, directory):
    environment = dict(os.environ, LD_LIBRARY_PATH=directory, LD_BIND_NOW="1")
    return subprocess.run([loader, os.path.join(directory, "librdmacm.so.1")], env=environment, capture_output=True, text=True)


def main():
    loader, ibverbs, rdmacm, foreign = sys.argv[1:5]
    partners = [(foreign, False), (ibverbs, True)] + [(p, False) for p in glob.glob("/usr/lib/*/libibverbs.so.1")]
    problems = []
    for partner, wanted in partners:
        with tempfile.TemporaryDirectory() as directory:
            shutil.copy(rdmacm, f"{directory}/librdmacm.so.1")
            shutil.copy(partner, f"{directory}/libibverbs.so.1")
            result = load(loader, directory)
        if wanted and result.returncode:
            problems.append(f"our pair does not load: {result.stderr}")
        if not wanted and (result.returncode == 0 or "version `VERBENA_1' not found" not in result.stderr):
            problems.append(f"over {partner}: exit {result.returncode}, {result.stderr or 'no message'}")
    for problem in problems:
        print(problem)
    sys.exit(1 if problems else 0)


main()
