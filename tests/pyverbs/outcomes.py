"""What unittest printed (-v), test by test, held against the list of expected skips."""

import collections
import fnmatch
import re

STARTED = re.compile(r"(test\w*) \(([\w.]+)\)")  # of the runner's line about a test, whatever follows on it
ENDED = re.compile(r"(?:^|\.\.\. )(ok|FAIL|ERROR|skipped '(.*)'|skipped \"(.*)\"|expected failure|unexpected success)$")
STATES = {"ok": "passed", "FAIL": "failed", "ERROR": "error"}
SEPARATOR = "=" * 70  # before each of the detailed failures, which come at the end

Outcome = collections.namedtuple("Outcome", "state reason")
Expected = collections.namedtuple("Expected", "pattern reason optional")


def read_list(path):
    """The lines of an expected-skips file."""
    expected = []
    with open(path, encoding="utf-8") as file:
        for line in file:
            if line.strip() and not line.startswith("#"):
                pattern, reason = line.split(maxsplit=1)
                expected.append(Expected(pattern.lstrip("?"), reason.strip(), pattern.startswith("?")))
    return expected


def parse(text):
    """{"test_mr.MRTest.test_lkey": Outcome} in the order of the run; a test without an end is an error."""
    outcomes, current = {}, None
    for line in text.partition("\n" + SEPARATOR)[0].splitlines():
        if match := STARTED.match(line):
            name = match[2] if match[2].endswith("." + match[1]) else f"{match[2]}.{match[1]}"
            current = name.removeprefix("tests.")
            outcomes[current] = Outcome("error", "it did not come to an end")
        if current and (match := ENDED.search(line.rstrip())):
            outcomes[current] = Outcome(STATES.get(match[1], "skipped" if match[1].startswith("skipped") else "failed"),
                                        match[2] or match[3] or "")
            current = None
    return outcomes


def details(text):
    """{test: what unittest says about its failure}."""
    found = {}
    for part in text.split("\n" + SEPARATOR + "\n")[1:]:
        if match := re.match(r"(?:ERROR|FAIL): " + STARTED.pattern, part):
            name = match[2] if match[2].endswith("." + match[1]) else f"{match[2]}.{match[1]}"
            found[name.removeprefix("tests.")] = part.partition("\nRan ")[0]
    return found


def judge(name, outcome, expected):
    """What is wrong with a test's outcome, or nothing."""
    entry = next((entry for entry in expected if fnmatch.fnmatchcase(name, entry.pattern)), None)
    if outcome.state in ("failed", "error"):
        return outcome.reason or "see below"
    if outcome.state == "skipped" and not entry:
        return f"skipped, which nothing expects: {outcome.reason}"
    if outcome.state == "passed" and entry and not entry.optional:
        return f"passed, though the list says that it is skipped: {entry.reason}"
    return None


def report(text, expected, show_all=False):
    """Prints the tests that count and the sum; returns the exit status."""
    outcomes, failures = parse(text), details(text)
    wrong = 0
    for name, outcome in outcomes.items():
        fault = judge(name, outcome, expected)
        wrong += bool(fault)
        if fault:
            print(f"FAILED   {name}: {fault}")
            for line in failures.get(name, "").splitlines()[1:]:
                print(f"        | {line}")
        elif show_all:
            print(f"{outcome.state:8} {name}" + (f": {outcome.reason}" if outcome.reason else ""))
    if not outcomes:
        print(text[-2000:] + "FAILED   the tests did not run")
        return 1
    count = collections.Counter(outcome.state for outcome in outcomes.values())
    print(f"{len(outcomes)} tests: {count['passed']} passed, {count['failed']} failed, {count['error']} errors, "
          f"{count['skipped']} skipped; {wrong} not as expected")
    return 1 if wrong else 0
