#!/usr/bin/env python3
"""top_test.py BUILD: `verbena top` as a job of a terminal: in the background it neither stops nor touches the terminal,
in the foreground it takes keys, and a signal that ends it does so in both."""

import os
import pty
import subprocess
import sys
import time
import unittest

from tool import ENVIRONMENT, VERBENA, Case, run

SECONDS = 10


class Job(Case):
    """The test is the shell of a terminal in which the command is a job with a process group of its own."""

    def setUp(self):
        super().setUp()
        run(VERBENA, "status")  # the daemon is there
        self.controller, self.terminal = pty.openpty()
        self.addCleanup(os.close, self.controller)
        self.addCleanup(os.close, self.terminal)

    def job(self, script):
        """Runs Python code in a session that has the terminal; `start(foreground, *words)` there starts top, `end(job)`
        waits for it. What it prints on stderr."""
        shell = f"""
import fcntl, os, signal, subprocess, sys, termios, time
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
signal.signal(signal.SIGTTOU, signal.SIG_IGN)  # as shells do
def start(foreground, *words):
    def become():
        os.setpgid(0, 0)
        if foreground:
            os.tcsetpgrp(0, os.getpid())
        signal.signal(signal.SIGTTOU, signal.SIG_DFL)
    return subprocess.Popen([{VERBENA!r}, "top", "-d", "0.1", *words], preexec_fn=become)
def end(job):
    try:
        status = job.wait({SECONDS})
    except subprocess.TimeoutExpired:
        job.kill()
        status = "it does not end"
    print(status, file=sys.stderr)
def is_raw():
    return not termios.tcgetattr(0)[3] & termios.ICANON
def wait_until(what):
    for _ in range({SECONDS} * 100):
        if what():
            return
        time.sleep(0.01)
    print("it never came", file=sys.stderr)
{script}
"""
        started = subprocess.Popen([sys.executable, "-c", shell], env=ENVIRONMENT, stdin=self.terminal, stdout=self.terminal,
                                   stderr=subprocess.PIPE, start_new_session=True, text=True)
        self.addCleanup(started.kill)
        os.set_blocking(self.controller, False)
        deadline = time.monotonic() + 4 * SECONDS
        while started.poll() is None and time.monotonic() < deadline:  # what fills the terminal stops its writers
            try:
                os.read(self.controller, 65536)
            except BlockingIOError:
                time.sleep(0.01)
        return started.communicate(timeout=SECONDS)[1]

    def test_in_the_background(self):
        self.assertEqual("0\nFalse\n", self.job("end(start(False, '-n', '2'))\nprint(is_raw(), file=sys.stderr)"))

    def test_in_the_foreground(self):
        self.assertEqual("0\nFalse\n", self.job("""
job = start(True)
wait_until(is_raw)
job.send_signal(signal.SIGTERM)
end(job)
print(is_raw(), file=sys.stderr)"""))

    def test_ended_while_it_was_stopped(self):
        self.assertEqual("0\n", self.job("""
job = start(True)
wait_until(is_raw)
job.send_signal(signal.SIGSTOP)
os.tcsetpgrp(0, os.getpgrp())
job.send_signal(signal.SIGTERM)
job.send_signal(signal.SIGCONT)
end(job)"""))


class Words(Case):
    def test_a_look_at_least(self):
        for count in ("0", "-1", "x"):
            result = run("timeout", "5", VERBENA, "top", "-d", "0.01", "-n", count)
            self.assertEqual((2, ""), (result.returncode, result.stdout), result.stderr)
            self.assertIn("no number from 1 on", result.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv)
