#!/usr/bin/env python3
"""links_test.py: every relative link of the project's texts leads somewhere; one to a frame of a capture ("rping.pcap, 3")
leads to a RoCE v2 packet."""

import pathlib
import re
import struct
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
LINK = re.compile(r"(?<!!)\[([^]\[]*)\]\(([^)\s]+)\)")
FRAME = re.compile(r"^(?:[\w-]+\.pcap, )?(\d+)$")
ROCE_PORT = 4791


def texts():
    own = (path for path in ROOT.iterdir() if not path.name.startswith((".", "build")))
    return sorted(text for path in own for text in ([path] if path.suffix == ".md" else path.rglob("*.md")))


def frames(path):
    data = path.read_bytes()
    place, found = 24, []
    while place < len(data):
        length = struct.unpack_from("<I", data, place + 8)[0]
        found.append(data[place + 16:place + 16 + length])
        place += 16 + length
    return found


def is_roce(frame):
    """Of an Ethernet frame: UDP over IPv4 or IPv6, to RoCE's port."""
    kind = frame[12:14]
    if kind == b"\x08\x00" and frame[23] == 17:
        udp = 14 + (frame[14] & 15) * 4
    elif kind == b"\x86\xdd" and frame[20] == 17:
        udp = 54
    else:
        return False
    return struct.unpack_from(">H", frame, udp + 2)[0] == ROCE_PORT


class Links(unittest.TestCase):
    def test_every_link_leads_somewhere(self):
        count = 0
        for text in texts():
            for label, target in LINK.findall(re.sub(r"```.*?```", "", text.read_text(), flags=re.DOTALL)):
                if re.match(r"[a-z]+:|#", target):
                    continue
                with self.subTest(text=text.name, link=target):
                    path = text.parent / target.partition("#")[0]
                    self.assertTrue(path.exists(), f"{text.relative_to(ROOT)} links to {target}")
                    count += 1
                    if path.suffix == ".pcap" and (frame := FRAME.match(label)):
                        all_frames = frames(path)
                        number = int(frame[1])
                        self.assertTrue(0 < number <= len(all_frames), f"{target} has {len(all_frames)} frames, not {number}")
                        self.assertTrue(is_roce(all_frames[number - 1]), f"{label} is no RoCE v2 packet")
        self.assertGreater(count, 50)


if __name__ == "__main__":
    sys.exit(unittest.main())
