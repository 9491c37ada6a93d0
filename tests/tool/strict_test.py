#!/usr/bin/env python3
"""strict_test.py BUILD: `verbena run --strict` tells each mistake of strict_ends.c and nothing about the same without it, over
both links; stock programs that do all right hear nothing."""

import os
import shutil
import subprocess
import time
import unittest

from tool import ENVIRONMENT, VERBENA, Case, run

FOUND = 124
SENTENCES = {
    "changed": "the buffer of the send wr_id=0x2 of qp 0x",
    "overlap": "the receive wr_id=0x2 of qp 0x",
    "twice": "that the receive wr_id=0x2 of qp 0x",
    "region": "ibv_dereg_mr(mr 1) while the receive wr_id=0x1 of qp 0x",
    "key": "of mr 2, which is gone (ibv_dereg_mr)",
    "read_key": "of mr 2, which is gone (ibv_dereg_mr)",
    "unmapped": "of mr 1, which are not mapped any more",
    "overrun": "cq 2 can overrun: 9 requests that complete there are outstanding, and it has 8 entries",
    "extended_overrun": "cq 3 can overrun: 5 requests",
    "unsignaled": "is full of 8 requests without IBV_SEND_SIGNALED",
    "unacknowledged": "ibv_destroy_cq(cq 2) would wait for ever: 1 of its events",
    "beside_rsockets": "ibv_destroy_cq(cq 2) would wait for ever: 1 of its events",
    "cancelled": "the receive wr_id=0x2 of qp 0x",
    "async_event": "destroying qp 0x",
    "cm_event": "rdma_destroy_id(id 1) would wait for ever: not acknowledged by rdma_ack_cm_event(): RDMA_CM_EVENT_ADDR_RESOLVED",
}


class Strict(Case):
    def setUp(self):
        super().setUp()
        self.program = self.compile_file("strict_ends", "-g", "-pthread", "-lrdmacm", "-libverbs")

    def strict(self, *words, link="local", options=()):
        return run(VERBENA, "run", "--strict", *options, "--", self.program, *words, env=dict(ENVIRONMENT, VERBENA_LINK=link))

    def test_mistakes(self):
        for link in ("wire", "local"):
            for word, sentence in SENTENCES.items():
                with self.subTest(mistake=word, link=link):
                    result = self.strict(word, link=link)
                    self.assertEqual(FOUND, result.returncode, result.stderr)
                    self.assertEqual(1, result.stderr.count("verbena strict:"), result.stderr)
                    self.assertIn(sentence, result.stderr)

    def test_the_same_without(self):
        for word in SENTENCES:
            with self.subTest(mistake=word):
                result = self.strict(word, "right")
                self.assertEqual((0, ""), (result.returncode, result.stderr))

    def test_what_is_sound(self):
        self.program = self.compile_file("strict_sound", "-g", "-pthread", "-libverbs")
        for word in ("alone", "threads"):
            for link in ("wire", "local"):
                with self.subTest(word, link=link):
                    result = self.strict(word, link=link)
                    self.assertEqual((0, "", ""), (result.returncode, result.stdout, result.stderr))

    def test_another_thread_acknowledges(self):
        """While the destroy waits, or long after strict mode has ended that."""
        result = self.strict("late", "right")
        self.assertEqual((0, "done\n", ""), (result.returncode, result.stdout, result.stderr))
        result = self.strict("late")
        self.assertEqual((FOUND, "done\n"), (result.returncode, result.stdout))
        self.assertIn("ibv_destroy_cq(cq 2) has waited 10 s: 1 of its events", result.stderr)

    def test_what_is_left(self):
        result = self.strict("leak")
        self.assertEqual(FOUND, result.returncode)
        lines = result.stderr.splitlines()
        self.assertEqual("verbena strict: not destroyed at the end:", lines[0])
        kinds = sorted(line.split()[1] for line in lines[2:])
        self.assertEqual(["comp_channel", "context", "cq", "cq", "mr", "pd", "pd", "qp", "qp"], kinds)
        three = [line for line in lines if line.split()[1:3] == ["pd", "3"]]
        self.assertEqual(1, len(three), result.stderr)
        if shutil.which("addr2line"):
            self.assertRegex(three[0], r"leak \(strict_ends.c:\d+\) < main \(strict_ends.c:\d+\)")
        result = self.strict("leak", "right")
        self.assertEqual((0, ""), (result.returncode, result.stderr))

    @unittest.skipUnless(shutil.which("addr2line"), "no binutils")
    def test_places_of_a_program_from_somewhere(self):
        """Found by PATH, started from another folder, or one that is at fixed addresses."""
        fixed = self.compile_file("strict_ends", "-g", "-no-pie", "-pthread", "-lrdmacm", "-libverbs")
        os.mkdir(os.path.join(self.folder, "below"))
        for program, folder in (("strict_ends", "/"), ("../strict_ends", os.path.join(self.folder, "below")), (fixed, "/")):
            result = run(VERBENA, "run", "--strict", "--", "sh", "-c", f'cd "{folder}"; exec {program} leak',
                         env=dict(ENVIRONMENT, PATH=f"{self.folder}:{ENVIRONMENT['PATH']}"))
            self.assertRegex(result.stderr, r"leak \(strict_ends.c:\d+\) < main \(strict_ends.c:\d+\)")

    def test_undefined_fields(self):
        result = self.strict("poison")
        self.assertEqual((0, "status 5 wr_id 1 opcode 0xdeadbeef byte_len 0xdeadbeef\n"), (result.returncode, result.stdout))
        result = self.strict("poison_extended")
        self.assertEqual("status 5 wr_id 7 opcode 0xdeadbeef byte_len 0xdeadbeef imm_data 0xdeadbeef src_qp 0xdeadbeef\n",
                         result.stdout, result.stderr)

    def test_exit_status(self):
        self.assertEqual(7, run(VERBENA, "run", "--strict", "--", "sh", "-c", "exit 7").returncode)
        self.assertEqual(0, run(VERBENA, "run", "--strict", "--", "true").returncode)
        self.assertEqual(2, self.strict("no such word").returncode)
        self.assertIn(run(VERBENA, "run", "--strict", "--system", "--", "ibv_devices").returncode, (0, 1))  # 1: no RDMA here

    def pair(self, server, client):
        started = subprocess.Popen([VERBENA, "run", "--strict", "--", *server], env=ENVIRONMENT, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True)
        self.addCleanup(started.kill)
        for _ in range(60):  # stock programs do not try again
            result = run(VERBENA, "run", "--strict", "--", *client)
            if result.returncode == 0 or started.poll() is not None:
                break
            time.sleep(0.1)
        _, errors = started.communicate(timeout=30)
        self.assertEqual((0, 0), (started.returncode, result.returncode), errors + result.stderr)
        self.assertNotIn("strict", errors + result.stderr)

    def test_stock_programs(self):
        words = ["-a", "127.0.0.1", "-p", "7441", "-C", "3"]
        self.pair(["rping", "-s", *words], ["rping", "-c", *words])
        self.pair(["rdma_server", "-p", "7442"], ["rdma_client", "-s", "127.0.0.1", "-p", "7442"])
        words = ["ibv_rc_pingpong", "-d", "verbena_lo", "-g", "0", "-n", "5", "-p", "18631"]
        self.pair([*words, "-N"], [*words, "-N", "127.0.0.1"])
        if shutil.which("ib_write_bw"):
            words = ["ib_write_bw", "-d", "verbena_lo", "-n", "50", "-s", "4096", "-p", "18632"]
            self.pair(words, [*words, "127.0.0.1"])


if __name__ == "__main__":
    unittest.main()
