"""The lines that the runners print, one a case, and the sum at the end."""

import collections
import sys


class Report:
    def __init__(self):
        self.counts = collections.Counter()
        self.again = 0
        self.titles = set()

    def add(self, title, outcome):
        """Prints a case's line, and after a failure what its programs said."""
        self.counts[outcome.state] += 1
        self.titles.add(title)
        self.again += outcome.again
        seconds = f"{outcome.seconds:6.2f} s" if outcome.state != "not run" else " " * 8
        notes = [outcome.why] if outcome.why else []
        if outcome.again:
            notes.append(f"{outcome.again} clients started again")
        notes += [f"an attempt before: {why}" for why in outcome.seen]
        print(f"{outcome.state:8} {seconds}  {title}" + (f": {'; '.join(notes)}" if notes else ""))
        if outcome.detail:
            print(outcome.detail, end="")
        sys.stdout.flush()

    def end(self):
        """Prints the sum; returns the exit status: 0 when something ran and nothing failed, 77 when nothing ran."""
        count = self.counts
        print(f"{count['ok']} ok, {count['FAILED']} failed, {count['not run']} not run"
              + (f"; {self.again} clients came before their server listened and were started again"
                 if self.again else ""))
        if count["FAILED"]:
            return 1
        return 0 if count["ok"] else 77
