"""Recordings for the tests of `verbena report`: lines as `verbena record` writes them, and the packets of a real rping."""

import base64
import json
import os
import signal
import struct
import subprocess

from tool import ENVIRONMENT, VERBENA, Case, packets, run

SECONDS = 20
ATTEMPTS = 20
NASTY = "</script><script>alert('x')</script><!-- & \" ' {{DATA}} \u2028 中文"
NANOSECONDS = 1_700_000_000_000_000_000  # when the made-up recordings happen
MAD = 20 + 8 + 12 + 8 + 24  # where a MAD's message begins: behind IPv4, UDP, BTH, DETH and its header


def line(kind, t=0, **more):
    return json.dumps({"k": kind, "t": NANOSECONDS + t, "pid": 7, "tid": 7} | more)


def packet_line(frame, t, **more):
    return json.dumps({"k": "packet", "t": NANOSECONDS + t, "frame": base64.b64encode(frame).decode()} | more)


def cm_attribute(frame):
    """Of an IPv4 packet with a MAD; 0 of others."""
    udp = frame[20:]
    return struct.unpack_from(">H", udp, 8 + 12 + 8 + 16)[0] if udp[8] == 0x64 and len(udp) > 280 else 0


def is_straight(frames):
    """Nothing was sent again, as happens on a machine so busy that an acknowledgement is late."""
    kinds = [cm_attribute(frame) or (frame[28], frame[33:36], frame[37:40]) for frame in frames]  # opcode, QPN, PSN
    return len(kinds) == len(set(kinds))


class Recordings(Case):
    """Has the packets of an rping of two rounds, and writes files."""

    frames = None

    def write_lines(self, name, *lines):
        return self.write(name, "".join(each + "\n" for each in lines))

    def capture_rping(self):
        """The packets of an rping of two rounds, as a file; of one in which nothing was sent again."""
        for _ in range(ATTEMPTS):
            file = self.capture_any_rping()
            if is_straight(packets(file)):
                return file
        return self.fail(f"something was sent again in each of {ATTEMPTS} runs")

    def capture_any_rping(self):
        file = os.path.join(self.folder, "rping.pcapng")
        capture = subprocess.Popen([VERBENA, "capture", "-w", file], env=ENVIRONMENT, stderr=subprocess.PIPE)
        self.addCleanup(capture.kill)
        self.assertIn(b"capturing to", capture.stderr.readline())
        words = ["-a", "127.0.0.1", "-p", "7397", "-C", "2"]
        server = subprocess.Popen([VERBENA, "run", "--", "rping", "-s", *words], env=ENVIRONMENT,
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(server.kill)
        self.wait_for_listener("7397")
        result = run(VERBENA, "run", "--", "rping", "-c", *words)
        self.assertEqual(0, result.returncode, result.stderr)
        server.wait(SECONDS)
        capture.send_signal(signal.SIGINT)
        capture.communicate(timeout=SECONDS)
        return file

    def rping(self):
        """Its packets, to UDP port 4791 so that nobody looks at ICRCs; captured once."""
        if Recordings.frames is None:
            frames = [bytearray(frame) for frame in packets(self.capture_rping())]
            for frame in frames:
                struct.pack_into(">H", frame, 22, 4791)
            Recordings.frames = [bytes(frame) for frame in frames]
        return Recordings.frames
