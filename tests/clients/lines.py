"""Whether what a program printed is exactly what its source can print, in an order that it allows.

A program with several threads may print some of its lines in more than one order; what is fixed is a partial order.
"""

import re

LOG = "verbena: "  # how a line of Verbena's log begins


def printed(text):
    """The lines of the program itself."""
    return [line for line in text.splitlines() if not line.startswith(LOG)]


class Lines:
    """chains: sequences of lines (regular expressions); within each the order is fixed. A line that occurs in several
    chains under one key is one line: write it as (key, pattern) there, or as the same pattern, which is its own key."""

    def __init__(self, *chains):
        self.patterns = {}
        self.chains = []
        for chain in chains:
            keys = []
            for line in chain:
                key, pattern = line if isinstance(line, tuple) else (line, line)
                self.patterns.setdefault(key, pattern)
                keys.append(key)
            self.chains.append(keys)

    def complete(self, text):
        """Whether as many lines have come as there are to come."""
        return len(printed(text)) >= len(self.patterns)

    def fault(self, text, **values):
        """What is wrong with the text, or nothing. values fill {fields} of the patterns."""
        patterns = {key: pattern.format(**values) for key, pattern in self.patterns.items()}
        at = {}
        for number, line in enumerate(printed(text)):
            # Lines that look alike are told apart by their order.
            key = next((key for key, pattern in patterns.items() if key not in at and re.fullmatch(pattern, line)), None)
            if key is None:
                return f"unexpected line {line!r}"
            at[key] = number
        for key, pattern in patterns.items():
            if key not in at:
                return f"the line {pattern!r} is missing"
        for chain in self.chains:
            for first, second in zip(chain, chain[1:]):
                if at[first] > at[second]:
                    return f"{patterns[second]!r} came before {patterns[first]!r}"
        return None
