#!/usr/bin/env python3
"""capture_test.py BUILD: `verbena capture` sees the packets of all programs of the user, those that travel through shared
memory among them, and what a plan of faults did to them; programs that run already, too; tshark reads it."""

import os
import signal
import subprocess
import unittest

from tool import ENVIRONMENT, VERBENA, Case, packets, run

SECONDS = 20
SEND_ONLY, WRITE_ONLY, READ_REQUEST, READ_RESPONSE, ACK = 0x04, 0x0A, 0x0C, 0x10, 0x11  # IBA table 38
SECTION_HEADER = b"\x0a\x0d\x0d\x0a"


class Capture(Case):
    def setUp(self):
        super().setUp()
        self.program = self.compile_file("two_ends", "-libverbs")
        self.file = os.path.join(self.folder, "all.pcapng")

    def capture(self, file, **options):
        """A capture that all programs know of."""
        started = subprocess.Popen([VERBENA, "capture", "-w", file], env=ENVIRONMENT, stderr=subprocess.PIPE, **options)
        self.addCleanup(started.kill)
        self.assertIn(b"capturing to", started.stderr.readline())
        return started

    def end(self, capture):
        capture.send_signal(signal.SIGINT)
        _, errors = capture.communicate(timeout=SECONDS)
        self.assertEqual((0, b""), (capture.returncode, errors))

    def ends(self, words, link, *options):
        result = run(VERBENA, "run", *options, "--", self.program, *words.split(),
                     env=dict(ENVIRONMENT, VERBENA_LINK=link))
        self.assertEqual(0, result.returncode, result.stderr)

    def opcodes(self):
        return [packet[(packet[0] & 15) * 4 + 8] for packet in packets(self.file)]

    def tshark(self, *words):
        # A fabric has a UDP port of its own, which may be some other protocol's; and payloads of eight bytes are taken for
        # NFS.
        ports = {int.from_bytes(packet[at:at + 2], "big") for packet in packets(self.file)
                 for at in [(packet[0] & 15) * 4 + 2]}
        roce = [word for port in sorted(ports) for word in ("-d", f"udp.port=={port},infiniband")]
        result = run("tshark", "-r", self.file, *roce, "--disable-protocol", "rpcordma", *words)
        self.assertEqual(0, result.returncode, result.stderr)
        return result.stdout

    def test_both_links(self):
        for link in ("wire", "local"):
            with self.subTest(link=link):
                capture = self.capture(self.file)
                self.ends("send write read", link)
                self.end(capture)
                self.assertEqual({SEND_ONLY, WRITE_ONLY, READ_REQUEST, READ_RESPONSE, ACK}, set(self.opcodes()))
                self.assertEqual("", self.tshark("-Y", "_ws.malformed or not infiniband.bth"))

    def test_programs_that_run_already(self):
        server = subprocess.Popen([VERBENA, "run", "--", "rping", "-s", "-a", "127.0.0.1", "-p", "7391", "-C", "3"],
                                  env=ENVIRONMENT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(server.kill)
        client = [VERBENA, "run", "--", "rping", "-c", "-a", "127.0.0.1", "-p", "7391", "-C", "3", "-V"]
        self.wait_for_listener("7391")
        capture = self.capture(self.file)
        self.assertEqual(0, run(*client).returncode)
        server.wait(SECONDS)
        self.end(capture)
        picture = run(VERBENA, "handshake", self.file).stdout
        for name in ("REQ", "REP", "RTU", "DREQ", "DREP"):
            self.assertEqual(1, len([line for line in picture.splitlines() if f"- {name} -" in line]), picture)
        # Through shared memory; each once, although both ends are captured.
        self.assertEqual(3, self.opcodes().count(READ_RESPONSE))

    def test_a_pipe(self):
        capture = self.capture("-", stdout=subprocess.PIPE)
        self.ends("send", "local")
        capture.send_signal(signal.SIGINT)
        written, _ = capture.communicate(timeout=SECONDS)
        with open(self.file, "wb") as file:
            file.write(written)
        self.assertTrue(written.startswith(SECTION_HEADER))
        self.assertIn(SEND_ONLY, self.opcodes())

    def test_a_pipe_that_nobody_reads(self):
        """Although no packet comes on which a write could fail."""
        capture = self.capture("-", stdout=subprocess.PIPE)
        capture.stdout.read(10)
        capture.stdout.close()
        self.assertEqual(0, capture.wait(SECONDS))
        capture.stderr.close()

    def test_faults_are_comments(self):
        for link in ("wire", "local"):
            with self.subTest(link=link):
                capture = self.capture(self.file)
                self.ends("send", link, "--fault", "drop opcode=send nth=1")
                self.end(capture)
                self.assertIn("Verbena fault: drop opcode=send nth=1", self.tshark("-T", "fields", "-e", "frame.comment"))
                self.assertGreaterEqual(self.opcodes().count(SEND_ONLY), 2)

    def test_one_writer_of_a_file(self):
        capture = self.capture(self.file)
        before = os.path.getsize(self.file)
        second = run(VERBENA, "capture", "-w", self.file)
        self.assertEqual((1, f"verbena: {self.file}: another verbena command is writing to it\n"),
                         (second.returncode, second.stderr))
        self.assertEqual(before, os.path.getsize(self.file))
        self.end(capture)
        self.end(self.capture(self.file))

    @unittest.skipIf(run("unshare", "-m", "true").returncode, "only root can make a namespace of mounts")
    def test_no_room(self):
        """On a disk of one page."""
        disk = os.path.join(self.folder, "disk")
        os.mkdir(disk)
        script = 'mount -t tmpfs -o size=4k none "$1" && exec "$2" capture -w "$1/all.pcapng"'
        capture = subprocess.Popen(["unshare", "-m", "sh", "-c", script, "sh", disk, VERBENA], env=ENVIRONMENT, stderr=subprocess.PIPE)
        self.addCleanup(capture.kill)
        self.assertIn(b"capturing to", capture.stderr.readline())
        for _ in range(12):
            self.ends("send write read", "wire")
        capture.send_signal(signal.SIGINT)
        _, errors = capture.communicate(timeout=SECONDS)
        self.assertEqual((1, f"verbena: {disk}/all.pcapng: packets found no room and are missing\n"),
                         (capture.returncode, errors.decode()))

    def test_mistakes(self):
        for file, sentence in (("/nowhere/file", "No such file"), ("/dev/null", "not a file")):
            result = run(VERBENA, "capture", "-w", file)
            self.assertEqual(1, result.returncode)
            self.assertIn(sentence, result.stderr)


if __name__ == "__main__":
    unittest.main()
