#!/usr/bin/env python3
"""check_symbols.py LIBRARY EXPECTED [PRIVATE_NODE]: LIBRARY exports exactly the names of EXPECTED, each at its node and
with its binding; at PRIVATE_NODE it may also export verbena_*, and must export verbena_build_id there."""
import re
import subprocess
import sys
from pathlib import Path


def exported(library):
    """{(symbol@node, binding)} of the defined dynamic symbols, and the version nodes themselves."""
    text = subprocess.run(["readelf", "--dyn-syms", "--wide", library], check=True, capture_output=True, text=True).stdout
    symbols, nodes, other = set(), set(), []
    for line in text.splitlines():
        fields = line.split()
        if len(fields) < 8 or not fields[0].rstrip(":").isdigit() or fields[6] == "UND" or fields[4] == "LOCAL":
            continue
        kind, binding, visibility, section, name = fields[3], fields[4], fields[5], fields[6], fields[7]
        if section == "ABS":
            nodes.add(name.split("@")[0])
            continue
        match = re.fullmatch(r"([^@]+)(@@?)(.+)", name)
        if not match or visibility not in ("DEFAULT", "PROTECTED") or kind not in ("FUNC", "OBJECT"):
            other.append(line.strip())
            continue
        symbols.add((f"{match[1]}@{match[3]}", "default" if match[2] == "@@" else "compat"))
    return symbols, nodes, other


def main():
    library, expected_file = sys.argv[1:3]
    private = sys.argv[3] if len(sys.argv) > 3 else None
    expected = set()
    for line in Path(expected_file).read_text().splitlines():
        if line and not line.startswith("#"):
            expected.add(tuple(line.split()))
    symbols, nodes, other = exported(library)
    pattern = re.compile(rf"(verbena_\w+|_Z(N|NK|T.N)7verbena\w+)@{private}")
    ours = {s for s in symbols if private and pattern.fullmatch(s[0])}
    problems = [f"not a versioned function or object: {line}" for line in other]
    problems += [f"missing: {name} {binding}" for name, binding in sorted(expected - symbols)]
    problems += [f"unexpected: {name} {binding}" for name, binding in sorted(symbols - expected - ours)]
    if private and (f"verbena_build_id@{private}", "default") not in ours:
        problems.append(f"missing: verbena_build_id@{private}")
    print(f"{library}: {len(symbols)} symbols, {len(ours)} of them between the two libraries")
    for problem in problems:
        print(problem)
    sys.exit(1 if problems else 0)


main()
