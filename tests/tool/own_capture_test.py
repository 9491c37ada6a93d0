#!/usr/bin/env python3
"""own_capture_test.py BUILD: `verbena run --capture FILE` writes the program's packets to FILE.PID and, while it runs, those
of the connection manager to FILE.PID of the daemon: like the program's file, and of nobody who comes later."""

import glob
import os
import signal
import subprocess
import time
import unittest

from tool import ENVIRONMENT, VERBENA, Case, packets, run

SECONDS = 20
PORT = "7393"


class OwnCapture(Case):
    def setUp(self):
        super().setUp()
        # The daemon stays from one program to the next, and is the test's own.
        self.environment = dict(ENVIRONMENT, VERBENA_FABRIC=f"{ENVIRONMENT['VERBENA_FABRIC']}-own", VERBENA_IDLE_MS="3000")

    def start(self, *options):
        """A server for any number of clients."""
        server = subprocess.Popen([VERBENA, "run", *options, "--", "rping", "-s", "-P", "-a", "127.0.0.1", "-p", PORT],
                                  env=self.environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(server.wait)
        self.addCleanup(server.kill)
        for _ in range(SECONDS * 10):
            if PORT in run(VERBENA, "run", "--", "rdma", "resource", "show", "cm_id", env=self.environment).stdout:
                return server
            time.sleep(0.1)
        self.fail("the server does not listen")

    def end(self, server):
        server.send_signal(signal.SIGKILL)
        server.wait(SECONDS)
        self.wait_for(lambda: f"pid {server.pid} " not in run(VERBENA, "ps", env=self.environment).stdout)

    def wait_for(self, what):
        for _ in range(SECONDS * 20):
            if what():
                return
            time.sleep(0.05)
        self.fail("it never came")

    def client(self, *options, **settings):
        result = run(VERBENA, "run", *options, "--", "rping", "-c", "-a", "127.0.0.1", "-p", PORT, "-C", "1",
                     env=self.environment, **settings)
        self.assertEqual(0, result.returncode, result.stderr)

    def name(self, name="it"):
        return os.path.join(self.folder, name)

    def daemons(self, name="it"):
        pid = run(VERBENA, "status", env=self.environment).stdout.split("verbenad: pid ")[1].split(",")[0]
        return f"{self.name(name)}.{pid}"

    def count(self, file):
        return len(list(packets(file)))

    def test_it_ends_with_the_program(self):
        self.start()
        self.client("--capture", self.name())
        file = self.daemons()
        count = self.count(file)
        self.assertGreaterEqual(count, 5)  # REQ, REP, RTU, DREQ, DREP
        self.client()
        self.assertEqual(count, self.count(file))
        # Asked for again: what was there stays.
        self.client("--capture", self.name())
        self.assertGreaterEqual(self.count(file), count + 5)  # an answer may come behind the end
        picture = run(VERBENA, "handshake", file).stdout
        self.assertEqual(2, picture.count("Connection "), picture)

    def test_the_program_that_started_the_daemon(self):
        server = self.start("--capture", self.name("servers"))
        file = self.daemons("servers")
        self.client()
        other = self.start_beside(server)
        count = self.count(file)
        self.assertGreaterEqual(count, 5)
        self.client()
        self.assertEqual(count, self.count(file))
        self.assertEqual(file, self.daemons("servers"), "another daemon")
        self.end(other)

    def start_beside(self, server):
        """Another server after that one, without the daemon leaving."""
        self.end(server)
        return self.start()

    def test_two_programs_share_a_file(self):
        server = self.start("--capture", self.name())
        self.client("--capture", self.name())
        file = self.daemons()
        count = self.count(file)
        self.client()  # the server is still there
        self.assertGreater(self.count(file), count)
        self.end(server)

    def test_two_files_at_once(self):
        self.start("--capture", self.name("servers"))
        self.client("--capture", self.name("clients"))
        for name in ("servers", "clients"):
            self.assertGreaterEqual(self.count(self.daemons(name)), 5, name)

    def test_a_name_that_somebody_has_guessed(self):
        """A link or a pipe where the daemon's file is to be is none of its files."""
        self.start()
        target, pipe = self.daemons("link"), self.daemons("pipe")
        os.symlink(self.name("elsewhere"), target)
        os.mkfifo(pipe)
        reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
        self.addCleanup(os.close, reader)
        for name in ("link", "pipe"):
            self.client("--capture", self.name(name))
        self.assertFalse(os.path.exists(self.name("elsewhere")))
        self.assertEqual(b"", os.read(reader, 100))

    def test_modes(self):
        for mask, mode in ((0o022, 0o644), (0o077, 0o600), (0o002, 0o664)):
            with self.subTest(mask=oct(mask)):
                name = self.name(f"mask-{mask}")
                server = self.start()
                self.client("--capture", name, preexec_fn=lambda each=mask: os.umask(each))
                files = glob.glob(name + ".*")
                self.assertEqual(2, len(files))
                self.assertEqual({mode}, {os.stat(file).st_mode & 0o777 for file in files})
                self.end(server)


if __name__ == "__main__":
    unittest.main()
