#!/usr/bin/env python3
"""check_hygiene.py LIBIBVERBS LIBRDMACM: what a library that lives in other people's programs must not do.

Of each: it needs only libc, libm, the loader and its partner; it exports no STB_GNU_UNIQUE symbol (which would pin it
in the process); nothing of ours runs at load but verbs/loaded.cpp; no text relocations, no executable stack, no
absolute search path. Of the pair: librdmacm has no second copy of what libibverbs exports to it or of a room with
state."""
import re
import subprocess
import sys

SYSTEM = re.compile(r"(libc|libm)\.so\.6|libgcc_s\.so\.1|ld-linux.*\.so\.\d+|ld64\.so\.\d+")
# What the compiler's own objects run at load (frame registration), and what the static libstdc++ does: its sources end
# in .cc, ours in .cpp. The first of those allocates the emergency pool for exceptions; the others set up tables. libgcc
# asks the processor what it can do (__builtin_cpu_supports). The one of ours makes five system calls.
HARMLESS = re.compile(r"frame_dummy|__cpu_indicator_init|_GLOBAL__sub_I__ZN9__gnu_cxx9__freeresEv|_GLOBAL__sub_I_[\w.-]+\.cc|"
                      r"_ZN7verbena12_GLOBAL__N_17at_loadEv")
# Rooms whose objects exist once per process.
ONE_COPY = ("adapter", "host", "link", "transport", "memory", "completion")
problems = []


def run(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def check(condition, text):
    if not condition:
        problems.append(text)


def symbols(library):
    """(name, type letter) of all defined symbols, demangled; the static table if there is one."""
    found = []
    for line in run("nm", "--demangle", "--defined-only", library).splitlines():
        fields = line.split(maxsplit=2)
        if len(fields) == 3:
            found.append((fields[2], fields[1]))
    return found


def functions_by_address(library):
    by_address = {}
    for line in run("nm", "--defined-only", library).splitlines():
        fields = line.split()
        if len(fields) == 3 and fields[1] in "tTwW":
            by_address.setdefault(int(fields[0], 16), []).append(fields[2])
    return by_address


def load_time_functions(library):
    """Names of what DT_INIT_ARRAY calls; the addresses are in relative relocations."""
    text = run("readelf", "--sections", "--wide", library)
    match = re.search(r"\.init_array\s+INIT_ARRAY\s+(\w+)\s+\w+\s+(\w+)", text)
    if not match:
        return []
    begin, size = int(match[1], 16), int(match[2], 16)
    names = functions_by_address(library)
    found = []
    for line in run("readelf", "--relocs", "--wide", library).splitlines():
        match = re.match(r"([0-9a-f]+)\s+\w+\s+R_\w+_RELATIVE\s+([0-9a-f]+)", line)
        if match and begin <= int(match[1], 16) < begin + size:
            found.append(names.get(int(match[2], 16), ["an unnamed function"])[0])
    check(len(found) == size // 8, f"{library}: {size // 8} functions run at load, {len(found)} of them known")
    return found


def check_library(library, soname, partner):
    dynamic = run("readelf", "--dynamic", "--wide", library)
    check(f"Library soname: [{soname}]" in dynamic, f"{library}: the soname is not {soname}")
    for needed in re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic):
        check(SYSTEM.fullmatch(needed) or needed == partner, f"{library}: needs {needed}")
    for path in re.findall(r"\((?:RPATH|RUNPATH)\).*\[(.*)\]", dynamic):
        check(path == "$ORIGIN", f"{library}: searches {path}")
    check("(TEXTREL)" not in dynamic, f"{library}: has text relocations")
    stack = re.search(r"GNU_STACK.*", run("readelf", "--segments", "--wide", library))
    check(stack and "RWE" not in stack[0], f"{library}: wants an executable stack")
    unique = [l for l in run("readelf", "--dyn-syms", "--wide", library).splitlines() if " UNIQUE " in l]
    check(not unique, f"{library}: unique symbols: {unique}")
    for name in load_time_functions(library):
        check(HARMLESS.fullmatch(name), f"{library}: {name} runs at load")


def main():
    ibverbs, rdmacm = sys.argv[1:3]
    check_library(ibverbs, "libibverbs.so.1", None)
    check_library(rdmacm, "librdmacm.so.1", "libibverbs.so.1")
    check("libibverbs.so.1" in run("readelf", "--dynamic", "--wide", rdmacm), f"{rdmacm}: does not need its partner")

    shared = {line.split()[-1].split("@")[0] for line in run("nm", "-D", "--defined-only", ibverbs).splitlines()
              if "@@VERBENA_1" in line}
    own = {line.split()[-1] for line in run("nm", "--defined-only", rdmacm).splitlines()}
    for name in sorted(shared & own):
        problems.append(f"{rdmacm}: has its own {name}, which libibverbs shares")
    for name, kind in symbols(rdmacm):
        match = re.match(r"(?:\w+ for )?verbena::(\w+)::", name)
        if match and match[1] in ONE_COPY and not re.match(r"(typeinfo|vtable)", name):
            # A template or inline function of a shared header is compiled wherever it is used; only data is state.
            check(kind not in "bBdD", f"{rdmacm}: state of a room that belongs to libibverbs: {name}")

    for problem in problems:
        print(problem)
    sys.exit(1 if problems else 0)


main()
