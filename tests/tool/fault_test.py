#!/usr/bin/env python3
"""fault_test.py BUILD: what a plan of faults does to a program, over both links; that it says when it did nothing; plans
for programs that run; the recipes of docs/faults.md."""

import json
import os
import shutil
import subprocess
import unittest

from tool import ENVIRONMENT, LIBRARIES, VERBENA, Case, preloadable, run

LINKS = ("wire", "local")


class Base(Case):
    def setUp(self):
        super().setUp()
        self.program = self.compile_file("two_ends", "-libverbs")

    def under(self, plan, *words, status=0, options=(), **environment):
        result = run(VERBENA, "run", *options, "--fault", plan, "--", self.program, *words, env=dict(ENVIRONMENT, **environment))
        self.assertEqual(status, result.returncode, f"{plan}: {result.stdout}{result.stderr}")
        self.stderr = result.stderr
        return result.stdout.splitlines()


class Faults(Base):
    def both(self, plan, words, *lines):
        for link in LINKS:
            with self.subTest(plan=plan, link=link):
                self.assertEqual(list(lines), self.under(plan, *words.split(), VERBENA_LINK=link))

    def test_what_is_lost_is_sent_again(self):
        fine = ["send success", "received success 1", "send success", "received success 2"]
        for plan in ("drop opcode=RC_SEND_ONLY nth=1", "drop opcode=ack times=1", "corrupt opcode=send nth=2",
                     "drop opcode=send dir=in nth=1", "corrupt opcode=send dir=in times=1", "duplicate opcode=send",
                     "duplicate opcode=send,ack dir=in", "delay=3ms opcode=send", "delay=3ms opcode=send dir=in",
                     "rnr=1 opcode=send nth=1..2", "nak=psn_sequence opcode=send nth=2"):
            self.both(plan, "send*2", *fine)

    def test_order_does_not_matter(self):
        for plan in ("reorder opcode=send nth=1", "reorder opcode=send dir=in nth=1", "reorder probability=0.3 seed=3"):
            self.both(plan, "many=4", *["send success"] * 4, *["received success"] * 4)

    def test_naks(self):
        self.both("nak=remote_access opcode=write", "write", "write remote access error")
        self.both("nak=remote_operational opcode=read", "read", "read remote operation error")
        self.both("nak=invalid_request opcode=send", "send", "send remote invalid request error")

    def test_exhausted_retries(self):
        self.both("drop opcode=send", "send", "send transport retry counter exceeded")
        self.both("rnr=1 opcode=send", "send", "send RNR retry counter exceeded")

    def test_calls(self):
        self.both("fail call=ibv_reg_mr nth=1..2 errno=ENOMEM", "send", "registered after 2 failures: Cannot allocate memory",
                  "send success", "received success 1")
        self.both("fail call=ibv_post_send nth=1 errno=ENOMEM", "send", "post_send: Cannot allocate memory")

    # The recipe's loop.
    def test_each_call_that_a_program_makes(self):
        for call in ("ibv_get_device_list", "ibv_open_device", "ibv_alloc_pd", "ibv_create_cq", "ibv_create_qp", "ibv_modify_qp"):
            self.assertEqual([], self.under(f"fail call={call} nth=1 errno=EPERM", "send", status=3))
            self.assertIn("Operation not permitted", self.stderr)

    def test_ports_and_devices(self):
        self.both("link down opcode=send nth=1 for=50ms", "send event event send",
                  *["send success", "received success 1", "event port error", "event port active",
                    "send success", "received success 1"])
        self.both("device fatal", "alone event port", "event local catastrophic error", "port down")

    def test_the_end_of_a_program(self):
        for link in LINKS:
            self.assertEqual(["send success", "received success 1"],
                             self.under("kill opcode=send nth=2", "send*2", VERBENA_LINK=link, status=-9))
        self.under("kill=TERM opcode=send dir=in", "send", status=-15)

    def test_what_never_fired_is_told(self):
        lines = self.under("drop opcode=send nth=5; drop opcode=read", "send*2", status=125)
        self.assertEqual(4, len(lines))
        self.assertIn("this fault never fired: drop opcode=send nth=5 (2 passed that it is about)", self.stderr)
        self.assertIn("this fault never fired: drop opcode=read (0 passed", self.stderr)

    def test_the_programs_own_failure_counts_more(self):
        result = run(VERBENA, "run", "--fault", "drop nth=1", "--", "sh", "-c", "exit 7")
        self.assertEqual(7, result.returncode)
        self.assertEqual(127, run(VERBENA, "run", "--fault", "drop", "--", "no-such-program").returncode)

    def test_seeds_repeat(self):
        plan = "drop opcode=send probability=0.5 seed=11 times=8"
        self.assertEqual(self.under(plan, "send*6"), self.under(plan, "send*6"))

    def test_plans_in_files(self):
        file = self.write("plan", "# twice\nduplicate opcode=send\n")
        self.assertEqual(["send success", "received success 1"], self.under(file, "send"))

    def test_a_bad_plan_says_where(self):
        result = run(VERBENA, "run", "--fault", "drop oopcode=send", "--", "true")
        self.assertEqual(2, result.returncode)
        self.assertRegex(result.stderr, r"^verbena: the plan of faults: column 6: 'oopcode' is no condition of 'drop'")
        for plan in ("", " ", "# only a comment"):
            result = run(VERBENA, "run", "--fault", plan, "--", "true")
            self.assertEqual((2, "verbena: the plan of faults: column 1: there is no fault in this plan\n"),
                             (result.returncode, result.stderr))
        file = self.write("plan", "drop\nexplode\n")
        self.assertIn(f"{file}, line 2, column 1: 'explode' is no fault",
                      run(VERBENA, "run", "--fault", file, "--", "true").stderr)

    def test_nothing_is_left_behind(self):
        environment = dict(ENVIRONMENT, XDG_RUNTIME_DIR=self.folder)
        for command in ("true", "false"):
            run(VERBENA, "run", "--fault", "drop", "--", command, env=environment)
        self.assertEqual([], [name for name in os.listdir(self.folder) if name.startswith("verbena-faults")])


@unittest.skipIf(preloadable(LIBRARIES) != LIBRARIES, "--system preloads, which takes no names with spaces")
class OtherLibraries(Base):
    """--system: the interposer makes calls fail, over libraries that take no plan. Verbena's own stand for them here; over the
    distribution's, tests/interop/system."""

    def setUp(self):
        super().setUp()
        self.others = os.path.join(self.folder, "others")  # --system takes the command's own folder out of the way
        os.mkdir(self.others)
        for name in os.listdir(LIBRARIES):
            os.symlink(os.path.join(LIBRARIES, name), os.path.join(self.others, name))

    def under(self, plan, *words, status=0, options=(), **environment):
        return super().under(plan, *words, status=status, options=("--system", *options),
                             LD_LIBRARY_PATH=self.others, **environment)

    def test_calls(self):
        self.assertEqual(["registered after 2 failures: Cannot allocate memory", "send success", "received success 1"],
                         self.under("fail call=ibv_reg_mr nth=1..2 errno=ENOMEM", "send"))
        self.assertEqual(["post_send: Cannot allocate memory"], self.under("fail call=ibv_post_send nth=1 errno=ENOMEM", "send"))
        self.under("fail call=ibv_create_qp nth=2 errno=EPERM", "send", status=3)
        self.assertIn("ibv_create_qp: Operation not permitted", self.stderr)

    def test_the_log_and_the_trace_say_why(self):
        why = "the plan of faults wants it to fail: fail call=ibv_alloc_pd nth=1 errno=EPERM"
        self.under("fail call=ibv_alloc_pd nth=1 errno=EPERM", "send", status=3, options=("--log", "warn"))
        self.assertIn(f"ibv_alloc_pd: {why}", self.stderr)
        result = run(VERBENA, "trace", "--system", "--fault", "fail call=ibv_alloc_pd nth=1 errno=EPERM", "--", self.program, "send",
                     env=dict(ENVIRONMENT, LD_LIBRARY_PATH=self.others))
        self.assertRegex(result.stderr, rf"ibv_alloc_pd\(context 1\) = NULL EPERM .*\({why}\)")

    def test_strict_mode_knows_what_was_not_posted(self):
        self.assertEqual(["post_send: Cannot allocate memory"],
                         self.under("fail call=ibv_post_send nth=1 errno=ENOMEM", "send", status=124, options=("--strict",)))
        self.assertNotIn("which has not completed", self.stderr)

    def test_what_never_fired_is_told(self):
        self.under("fail call=ibv_reg_mr nth=7 errno=EPERM", "send", status=125)
        self.assertIn("this fault never fired: fail call=ibv_reg_mr nth=7 errno=EPERM (1 passed", self.stderr)

    def test_nothing_but_calls(self):
        self.under("fail call=ibv_reg_mr errno=EPERM; drop nth=1", "send", status=2)
        self.assertEqual("verbena: the plan of faults: 'drop nth=1' needs Verbena's libraries; with --system calls can fail, "
                         "nothing else\n", self.stderr)
        for call in ("rsend", "ibv_memcpy_to_dm", "ibv_query_gid_type", "ibv_read_sysfs_file"):
            self.under(f"fail call={call} errno=EPERM", "send", status=2)
            self.assertIn(f"nothing stands in front of {call}\n", self.stderr)


class Connections(Case):
    """What the daemon does to CM messages, seen by stock programs."""

    # The server counts no rounds, so that it is the client who disconnects.
    def rpings(self, plan, port):
        server = subprocess.Popen([VERBENA, "run", "--", "rping", "-s", "-a", "127.0.0.1", "-p", port],
                                  env=ENVIRONMENT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(server.wait)
        self.addCleanup(server.kill)
        self.wait_for_listener(port)
        return run(VERBENA, "run", "--fault", plan, "--", "rping", "-c", "-a", "127.0.0.1", "-p", port, "-C", "2", "-V")

    def test_a_refused_request(self):
        for reason, port in ((8, "7392"), (28, "7393")):
            result = self.rpings(f"refuse cm=REQ nth=1 reason={reason}", port)
            self.assertIn(f"RDMA_CM_EVENT_REJECTED, error {reason}", result.stdout + result.stderr)

    def test_a_client_that_dies(self):
        client = os.path.join(self.folder, "client")
        os.symlink(shutil.which("rping"), client)
        result = run(VERBENA, "run", "--fault", "kill opcode=send nth=3 program=client", "--", "sh", "-c",
                     f"rping -s -a 127.0.0.1 -p 7395 & sleep 0.5; {client} -c -a 127.0.0.1 -p 7395; echo client $?; wait $!; echo server $?")
        self.assertIn("client 137\n", result.stdout)
        self.assertIn("server 0\n", result.stdout)

    def test_what_comes_late_or_twice(self):
        result = self.rpings("delay=100ms cm=RTU; duplicate cm=REQ,REP", "7394")
        # The client's event thread may or may not come to say so before the program ends.
        self.assertEqual((0, ""), (result.returncode, result.stderr.replace("client DISCONNECT EVENT...\n", "")))


class Running(Base):
    """Programs that run already."""

    def start(self, *words, link="wire"):
        process = subprocess.Popen([VERBENA, "run", "--", self.program, "pause", *words], text=True, stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, env=dict(ENVIRONMENT, VERBENA_LINK=link))
        self.addCleanup(process.wait)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.stdin.close)
        self.addCleanup(process.kill)
        self.assertEqual("ready\n", process.stdout.readline())
        return process

    def fault(self, *words, status=0):
        result = run(VERBENA, "fault", *words)
        self.assertEqual(status, result.returncode, result.stdout + result.stderr)
        return result

    def test_a_plan_for_a_program_that_runs(self):
        for link in LINKS:
            with self.subTest(link=link):
                process = self.start("event", "send", "send", "pause", link=link)
                # The port's event says that the plan has been read.
                self.fault(str(process.pid), "link down for=1ms; nak=remote_access opcode=send nth=2")
                process.stdin.write("\n")
                process.stdin.flush()
                lines = [process.stdout.readline().strip() for _ in range(5)]
                self.assertEqual(["event port error", "send success", "received success 1", "send remote access error",
                                  "ready"], lines)
                plan = json.loads(self.fault("--list", str(process.pid), "-j").stdout)
                self.assertEqual([(1, "link down for=1ms"), (1, "nak=remote_access opcode=send nth=2")],
                                 [(entry["fired"], entry["fault"]) for entry in plan])
                self.fault("--clear")
                plan = json.loads(self.fault("--list", "-j").stdout)
                self.assertEqual([False, False], [entry["active"] for entry in plan if entry["pid"] == process.pid])
                process.kill()

    def test_who_is_not_there(self):
        self.assertIn("no program of pid 1 has opened a device", self.fault("1", "drop", status=1).stderr)
        self.assertIn("'x' is no pid", self.fault("x", "drop", status=2).stderr)
        self.assertIn("'' is no pid", self.fault("", "drop", status=2).stderr)
        self.assertIn("is longer than 1 MiB", self.fault("all", "/dev/zero", status=2).stderr)
        self.fault(status=2)
        self.fault("all", "explode", status=2)

    def test_calls_are_listed(self):
        calls = self.fault("--calls").stdout.split()
        self.assertIn("ibv_reg_mr", calls)
        self.assertIn("rdma_connect", calls)


if __name__ == "__main__":
    unittest.main()
