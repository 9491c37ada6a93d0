#!/usr/bin/env python3
"""explore_test.py BUILD: `verbena explore` finds what a program does wrong when something fails, says how to see it again, and
finds nothing in one that does right; stock programs survive what the protocol makes good for."""

import json
import os
import shlex
import shutil
import signal
import subprocess
import unittest

from tool import ENVIRONMENT, VERBENA, Case, run

# Several programs are explored as one script, as a user would.
PAIR = """#!/bin/sh
ibv_rc_pingpong -d verbena_lo -g 0 -n 10 -s 64 -p 7399 & server=$!
for try in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
    sleep 0.1
    ibv_rc_pingpong -d verbena_lo -g 0 -n 10 -s 64 -p 7399 127.0.0.1 && wait $server && exit 0
    kill -0 $server || exit 1
done
exit 1
"""


class Fragile(Case):
    def setUp(self):
        super().setUp()
        self.program = self.compile_file("fragile", "-libverbs")

    def explored(self, way, *options):
        result = run(VERBENA, "explore", "-j", *options, "--", self.program, way)
        return result, [each for each in json.loads(result.stdout) if each["finding"] != "ok"]

    def test_a_sound_program(self):
        result, found = self.explored("SOUND")
        self.assertEqual((0, []), (result.returncode, found), result.stdout)
        self.assertGreater(len(json.loads(result.stdout)), 4)

    def test_a_crash_and_its_replay(self):
        result, found = self.explored("CRASH")
        self.assertEqual(1, result.returncode)
        self.assertEqual([("crash", "fail call=ibv_create_cq nth=1 errno=ENOMEM")],
                         [(each["finding"], each["fault"]) for each in found])
        replay = found[0]["replay"].replace("verbena run", f"{shlex.quote(VERBENA)} run", 1)
        again = subprocess.run(["bash", "-c", f"exec {replay}"], env=ENVIRONMENT, capture_output=True, check=False)
        self.assertEqual(-signal.SIGSEGV, again.returncode)

    def test_a_leak(self):
        _, found = self.explored("LEAK")
        self.assertEqual([("leak", "ibv_create_cq")], [(each["finding"], each["fault"].split()[1][5:]) for each in found])
        for kind in ("context", "pd", "mr", "comp_channel"):
            self.assertIn(f"fragile leaves 1 more {kind}", found[0]["what"])

    def test_a_hang(self):
        _, found = self.explored("HANG", "-t", "2")
        self.assertEqual([("hang", "ibv_reg_mr")], [(each["finding"], each["fault"].split()[1][5:]) for each in found])
        self.assertFalse([pid for pid in os.listdir("/proc") if pid.isdigit() and self.command_of(pid) == "fragile"])

    @staticmethod
    def command_of(pid):
        try:
            with open(f"/proc/{pid}/comm", encoding="utf-8") as name:
                return name.read().strip()
        except OSError:
            return ""

    def test_the_text(self):
        result = run(VERBENA, "explore", "--", self.program, "CRASH")
        self.assertIn(f"crash       verbena run --fault 'fail call=ibv_create_cq nth=1 errno=ENOMEM' -- {self.program} CRASH",
                      result.stdout)
        self.assertRegex(result.stdout, r"\n\d+ faults: \d+ ok, 1 crash\n$")


class Others(Case):
    def test_an_exit_status_of_the_programs(self):
        """As if nothing had fired."""
        source = "#include <infiniband/verbs.h>\nint main(void) { int n; return ibv_get_device_list(&n) ? 0 : 125; }"
        result = run(VERBENA, "explore", "-j", "--only", "calls", "--", self.compile("ends", source, "-libverbs"))
        self.assertEqual([("ok", 125)], list({(each["finding"], each["exit_status"]) for each in json.loads(result.stdout)}))

    def test_a_program_that_fails_anyway(self):
        result = run(VERBENA, "explore", "--", "false")
        self.assertEqual(2, result.returncode)
        self.assertIn("ends with 1; explore begins from a run that succeeds", result.stderr)
        result = run(VERBENA, "explore", "--", "true")
        self.assertEqual((2, "verbena: the program made no RDMA call and sent no packet\n"),
                         (result.returncode, result.stderr))

    @unittest.skipUnless(shutil.which("ibv_rc_pingpong"), "ibverbs-utils")
    def test_packets_of_a_pair(self):
        """What the transport repairs, two programs do not notice."""
        script = self.write("pair.sh", PAIR)
        os.chmod(script, 0o755)
        result = run(VERBENA, "explore", "-j", "--only", "packets", "--", script, env=ENVIRONMENT)
        found = json.loads(result.stdout)
        self.assertIn("drop opcode=RC_SEND_ONLY nth=1", [each["fault"] for each in found])
        for each in found:
            if not each["fault"].startswith("nak="):
                self.assertIn(each["finding"], ("ok", "never fired"), each)


if __name__ == "__main__":
    unittest.main()
