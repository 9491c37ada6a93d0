#!/usr/bin/env python3
"""Tests of the runner itself, with ordinary programs: what it must call FAILED, it does."""

import os
import signal
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))

from lines import Lines
from pairs import Case, run_case
from places import Place
from stations import Station, parse_gids

SERVE = ("python3 -c 'import socket; s = socket.create_server((\"127.0.0.1\", {port})); c = s.accept()[0];"
         " c.sendall(c.recv(9)); print(\"served\")'")
CALL = ("python3 -c 'import socket; c = socket.create_connection((\"{addr}\", {port})); c.sendall(b\"hello\");"
        " print(c.recv(9).decode())'")


class Pairs(unittest.TestCase):
    def outcome(self, **case):
        here = Station("here", [], {4: "127.0.0.1", 6: "::1"})
        port = 30000 + os.getpid() % 2000
        return run_case(Case("case", **{"server": SERVE, "client": CALL, "ready": "tcp", **case}), Place("lo", 4, here, here), port)

    def test_a_good_pair_passes(self):
        outcome = self.outcome(expect="^hello$", expect_server="^served$")
        self.assertEqual(("ok", ""), (outcome.state, outcome.why))

    def test_quiet_is_ready_too(self):
        self.assertEqual("ok", self.outcome(ready="quiet").state)

    def test_exit_status_counts(self):
        outcome = self.outcome(server="", client="sh -c 'echo said; exit 3'")
        self.assertEqual(("FAILED", "client: exit status 3"), (outcome.state, outcome.why))
        self.assertIn("| said", outcome.detail)

    def test_output_counts(self):
        self.assertIn("no line matches", self.outcome(expect="^goodbye$").why)

    def test_a_client_that_hangs_is_ended(self):
        self.assertIn("client: still running", self.outcome(client="sleep 60", seconds=0.2).why)

    def test_a_server_that_dies_is_noticed(self):
        self.assertIn("the server ended with status 1", self.outcome(server="false").why)

    def test_a_server_that_outlives_its_client_by_design_is_ended(self):
        self.assertEqual("ok", self.outcome(server="sleep 60", client="true", ready="quiet", server_exit=()).state)

    def test_a_server_that_ignores_its_signal_is_noticed(self):
        outcome = self.outcome(server="python3 -c 'import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
                                      " time.sleep(60)'", client="true", ready="quiet", server_exit=())
        self.assertEqual(f"server: did not end at signal {signal.SIGTERM.value}", outcome.why)

    def test_output_that_a_child_holds_open_is_noticed(self):
        self.assertIn("holds its output open", self.outcome(server="", client="sh -c 'sleep 8 & exit 0'").why)

    def test_a_program_that_is_not_installed_is_not_run(self):
        self.assertEqual("not run", self.outcome(server="", client="no-such-program").state)


class Output(unittest.TestCase):
    LINES = Lines(("first", "second"), ("first", "from {pid}"))

    def test_any_allowed_order_passes(self):
        for text in ("first\nsecond\nfrom 7\n", "first\nfrom 7\nverbena: a remark\nsecond\n"):
            self.assertIsNone(self.LINES.fault(text, pid=7))

    def test_faults_are_named(self):
        for text, fault in (("second\nfirst\nfrom 7\n", "'second' came before 'first'"),
                            ("first\nsecond\n", "the line 'from 7' is missing"),
                            ("first\nsecond\nfrom 8\n", "unexpected line 'from 8'"),
                            ("first\nsecond\nfrom 7\nsecond\n", "unexpected line 'second'")):
            self.assertEqual(fault, self.LINES.fault(text, pid=7))

    def test_gids_are_read(self):
        text = ("hca_id:\tone\n\t\t\tGID[  0]:\t\t::ffff:10.0.0.1, RoCE v2\n\t\t\tGID[  1]:\t\tfd00::1, RoCE v2\n"
                "hca_id:\ttwo\n\t\t\tGID[  0]:\t\t::1, RoCE v2\n")
        self.assertEqual({"10.0.0.1": ("one", 0), "fd00::1": ("one", 1), "::1": ("two", 0)},
                         {str(address): place for address, place in parse_gids(text).items()})


if __name__ == "__main__":
    unittest.main()
