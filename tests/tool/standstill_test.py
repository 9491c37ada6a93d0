#!/usr/bin/env python3
"""A program that waits for ever is told why, over both links; one that waits for a good reason hears nothing."""

import os
import selectors
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import tool

REASONS = {
    "no-receive": "has no receive posted (",
    "before-arming": "came before it was armed",
    "solicited": "is armed for solicited ones only",
    "not-armed": "it is not armed (ibv_req_notify_cq): no event comes for them",
    "never-armed": "no completion queue of its channel is armed",
    "silent": "has no IBV_SEND_SIGNALED",
}


class Waiting:
    """The program, which waits by now."""

    def __init__(self, program, reason, link, log="warn"):
        environment = {**tool.ENVIRONMENT, "VERBENA_LINK": link}
        self.process = subprocess.Popen([tool.VERBENA, "run", "--log", log, "--", program, reason], env=environment,
                                        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert self.process.stdout.readline() == b"waits\n"
        self.said = b""

    def hears(self, wanted, seconds):
        """Whether that is told within so many seconds."""
        end = time.monotonic() + seconds
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stderr, selectors.EVENT_READ)
            while wanted not in self.said:
                if not selector.select(max(0, end - time.monotonic())):
                    return False
                more = os.read(self.process.stderr.fileno(), 4096)
                if not more:
                    return False
                self.said += more
        return True

    def end(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.communicate()


class Standstill(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.program = os.path.join(cls.folder.name, "standstill")
        subprocess.run(["cc", "-Wall", "-o", cls.program, os.path.join(tool.ROOT, "tests/tool/standstill.c"),
                        "-libverbs", "-lrdmacm"], check=True)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def start(self, *arguments):
        waiting = Waiting(self.program, *arguments)
        self.addCleanup(waiting.end)
        return waiting

    def test_each_reason(self):
        for link in ("local", "wire"):
            started = {reason: self.start(reason, link) for reason in REASONS}
            for reason, sentence in REASONS.items():
                with self.subTest(link=link, reason=reason):
                    self.assertTrue(started[reason].hears(sentence.encode(), 60), started[reason].said)
                    started[reason].end()

    def test_a_receiver_hears_of_it_too(self):
        self.assertTrue(self.start("no-receive", "local").hears(b"no receive is posted (ibv_post_recv)", 60))

    def test_who_waits_for_a_peer_hears_nothing(self):
        """As long as another takes to be told."""
        patient = self.start("nothing-comes", "local")
        other = self.start("never-armed", "local")
        self.assertTrue(other.hears(b"is armed", 60), other.said)
        self.assertFalse(patient.hears(b"\n", 0.5), patient.said)

    def test_who_has_not_asked_hears_nothing(self):
        quiet = self.start("never-armed", "local", "error")
        other = self.start("never-armed", "local")
        self.assertTrue(other.hears(b"is armed", 60), other.said)
        self.assertFalse(quiet.hears(b"\n", 0.5), quiet.said)


if __name__ == "__main__":
    unittest.main()
