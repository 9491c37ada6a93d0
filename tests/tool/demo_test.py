#!/usr/bin/env python3
"""demo_test.py BUILD: what `make demo` shows is what took place: both ends have verified the data, and the picture's ids,
queue pairs and PSNs are those of the capture beside it, which is read here once more, without Verbena's parser."""

import glob
import os
import re
import shutil
import sys
import unittest

from tool import BUILD, ROOT, Case, packets, run

NAMES = {0x10: "REQ", 0x13: "REP", 0x14: "RTU", 0x15: "DREQ", 0x16: "DREP"}  # IBA 12.6: attribute ids
UDP_HEADER, BTH, DETH, MAD_HEADER = 8, 12, 8, 24


def number(data, at, size=4):
    return int.from_bytes(data[at:at + size], "big")


def management(file):
    """(name, ids, queue pair or None, PSN or None) of each CM message in the file."""
    for packet in packets(file):
        udp = packet[(packet[0] & 15) * 4:]
        bth = udp[UDP_HEADER:]
        if number(bth, 5, 3) != 1:  # the destination queue pair
            continue
        mad = bth[BTH + DETH:]
        name, body = NAMES.get(number(mad, 16, 2)), mad[MAD_HEADER:]
        local, remote = number(body, 0), number(body, 4)
        if name == "REQ":
            yield name, (local,), number(body, 32, 3), number(body, 44, 3)
        elif name == "REP":
            yield name, (local,), number(body, 12, 3), number(body, 20, 3)
        elif name == "DREQ":
            yield name, (local, remote), number(body, 8, 3), None
        elif name:
            yield name, (local, remote), None, None


def drawn(text):
    """The same of the picture."""
    for line in text.splitlines():
        row = re.match(r" +[0-9.]+ \|<?-+ (R?[A-Z]{3,4}) -+>?\| (.*)", line)
        if row:
            words = row[2]
            ids = tuple(int(word, 16) for word in re.findall(r"0x[0-9a-f]{8}", words))
            pair, psn = re.search(r"QPN 0x([0-9a-f]{6})", words), re.search(r"PSN (\d+)", words)
            yield row[1], ids, pair and int(pair[1], 16), psn and int(psn[1])


class Demo(Case):
    def setUp(self):
        super().setUp()
        if not shutil.which("rping"):
            self.skipTest("rping is not installed")
        self.build = os.path.join(self.folder, "build")  # the user's own pictures stay
        os.mkdir(self.build)
        os.symlink(os.path.join(BUILD, "bin"), os.path.join(self.build, "bin"))

    def test_the_picture_is_the_captures(self):
        result = run(os.path.join(ROOT, "scripts/demo"), self.build)
        self.assertEqual(0, result.returncode, result.stdout + result.stderr)
        for side in ("client", "server"):
            self.assertEqual(3, len(re.findall(f"^    {side}: .*ping data: rdma-ping-[012]: ", result.stdout, re.M)))
        captures = glob.glob(os.path.join(self.build, "demo/*/packets.*"))
        self.assertTrue(captures, os.listdir(self.build))
        picture = [row for row in dict.fromkeys(drawn(result.stdout)) if row[0] in NAMES.values()]
        self.assertEqual(list(NAMES.values()), [row[0] for row in picture], result.stdout)
        messages = {message for file in captures for message in management(file)}
        self.assertEqual(set(picture), messages)
        # What each message says of the others.
        request, reply, ready, leave, left = picture
        self.assertEqual((request[1] + reply[1], request[1] + reply[1], reply[1] + request[1]),
                         (ready[1], leave[1], left[1]))
        self.assertEqual(reply[2], leave[2])


if __name__ == "__main__":
    unittest.main(argv=sys.argv)
