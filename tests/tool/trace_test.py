#!/usr/bin/env python3
"""trace_test.py BUILD: `verbena trace` and `record` show what stock programs call, complete and send, over both links, and
change nothing about them; trace also works over the distribution's own libraries."""

import base64
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import time
import unittest

from tool import ENVIRONMENT, LIBRARIES, VERBENA, WHOSE, Case, preloadable, run

SECONDS = 30


class Traced(Case):
    def tell(self, *words, link="wire", options=(), command="trace"):
        """What is told of a program that nobody answers."""
        file = os.path.join(self.folder, "told")
        result = run(VERBENA, command, "-o", file, *options, "--", *words, env=dict(ENVIRONMENT, VERBENA_LINK=link))
        with open(file, encoding="utf-8") as told:
            return result, told.read()

    def pair(self, server, client, link, options=(), name="told"):
        """What is told of both ends of stock programs: a text each."""
        files = [os.path.join(self.folder, f"{name}.{end}") for end in ("server", "client")]
        environment = dict(ENVIRONMENT, VERBENA_LINK=link)
        command = [VERBENA, "trace", *options, "-o"]
        started = subprocess.Popen([*command, files[0], "--", *server], env=environment, stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT, text=True)
        self.addCleanup(started.kill)
        for _ in range(60):  # stock programs do not try again
            result = run(*command, files[1], "--", *client, env=environment)
            if result.returncode == 0 or started.poll() is not None:
                break
            time.sleep(0.1)
        out, _ = started.communicate(timeout=SECONDS)
        self.assertEqual((0, 0), (result.returncode, started.returncode), f"{result.stdout}{result.stderr}{out}")
        return [pathlib.Path(file).read_text(encoding="utf-8") for file in files]

    def has(self, text, *patterns):
        """In this order."""
        at = 0
        for pattern in patterns:
            found = re.compile(pattern).search(text, at)
            self.assertIsNotNone(found, f"no {pattern!r} (in this place) in\n{text}")
            at = found.end()


class StockPrograms(Traced):
    def test_rping(self):
        for link, port in (("wire", "7411"), ("local", "7412")):
            with self.subTest(link=link):
                words = ["-a", "127.0.0.1", "-p", port, "-C", "2"]
                server, client = self.pair(["rping", "-s", *words], ["rping", "-c", *words], link)
                self.has(client, r"rdma_resolve_addr\(id 1, src_addr=NULL, dst_addr=127.0.0.1:741", "RDMA_CM_EVENT_ADDR_RESOLVED id 1",
                         r"rdma_create_qp\(id 1, pd 2, .*\n.*  ibv_create_qp\(", "qp 0x[0-9a-f]+ new -> RESET IBV_QPT_RC",
                         r"rdma_connect\(id 1", r"~ .*QP1 REQ ", "QP1 REP", "INIT -> RTR", "RTR -> RTS",
                         "RDMA_CM_EVENT_ESTABLISHED", r"ibv_post_send\(qp 0x[0-9a-f]+, wr=\[\{wr_id=0x0, opcode=IBV_WR_SEND, "
                         "send_flags=SIGNALED", "rc_send_only", "completion cq 1 qp 0x[0-9a-f]+ success IBV_WC_SEND", "RTS -> ERR",
                         r"ibv_destroy_qp\(", "ERR -> gone")
                self.has(client, "RTR -> RTS", "QP1 RTU")  # told before, it leaves while the program goes on
                self.has(server, "RDMA_CM_EVENT_CONNECT_REQUEST id [0-9] listen_id=id 1 status=0 .*dst_addr=127.0.0.1:",
                         r"rdma_accept\(id ", "rc_read_request", "IBV_WC_RDMA_READ", "RDMA_CM_EVENT_DISCONNECTED")

    def test_pingpong(self):
        for link, options in (("wire", []), ("local", ["-N", "-t"])):  # ibv_wr_*, ibv_start_poll
            with self.subTest(link=link):
                words = ["ibv_rc_pingpong", "-d", "verbena_lo", "-g", "0", "-n", "3", "-p", "18611" if options else "18612", *options]
                _, client = self.pair(words, [*words, "127.0.0.1"], link)
                post = r"ibv_wr_complete\(qp 0x[0-9a-f]+, wr=\[\{" if options else r"ibv_post_send\(qp 0x[0-9a-f]+, wr=\[\{"
                self.has(client, r"ibv_open_device\(device=verbena_lo\) = context 1", "INIT -> RTR", "RTR -> RTS",
                         post + "wr_id=0x2, opcode=IBV_WR_SEND", "~ .*rc_send", "ibv_start_poll" if options else "ibv_poll_cq",
                         "completion cq 1 .*success IBV_WC_")

    def test_perftest(self):
        if not shutil.which("ib_send_bw"):
            self.skipTest("no perftest")
        for link, name, port in (("wire", "ib_send_bw", "18621"), ("local", "ib_write_bw", "18622")):
            with self.subTest(link=link):
                words = [name, "-d", "verbena_lo", "-n", "5", "-s", "4096", "-p", port]
                words += ["--use_old_post_send"] if name == "ib_write_bw" else []
                _, client = self.pair(words, [*words, "127.0.0.1"], link)
                self.has(client, r"ibv_reg_mr|ibv_reg_mr_iova2", "RTR -> RTS", "opcode=IBV_WR_(SEND|RDMA_WRITE)",
                         "success IBV_WC_(SEND|RDMA_WRITE)")

    def test_datagrams(self):
        for link, port in (("wire", "7431"), ("local", "7432")):
            with self.subTest(link=link):
                words = ["udaddy", "-b", "127.0.0.1", "-C", "2"]
                _, client = self.pair(words, [*words, "-s", "127.0.0.1"], link)
                self.has(client, "ps=RDMA_PS_UDP", "QP1 SIDR_REQ", "QP1 SIDR_REP", r"RDMA_CM_EVENT_ESTABLISHED .*param=\{qp_num=0x",
                         r"ibv_create_ah\(", "ah 1, remote_qpn=", "~ .*ud_send_only_immediate", "IBV_WC_RECV")

    def test_multicast(self):
        words = ["mckey", "-b", "127.0.0.1", "-m", "239.7.7.7", "-C", "2"]
        for link in ("wire", "local"):
            with self.subTest(link=link):
                receiver, sender = self.pair(words, [*words, "-s"], link)
                self.has(sender, r"rdma_join_multicast(_ex)?\(id 1", "RDMA_CM_EVENT_MULTICAST_JOIN", "ibv_post_send")
                self.has(receiver, r"rdma_join_multicast(_ex)?\(id 1", "RDMA_CM_EVENT_MULTICAST_JOIN", "IBV_WC_RECV")

    def test_pyverbs(self):
        python = "/usr/bin/python3"
        if run(python, "-c", "import pyverbs").returncode:
            self.skipTest("no pyverbs")
        program = self.write("open.py", "from pyverbs.device import Context\nfrom pyverbs.pd import PD\nfrom pyverbs.mr import MR\n"
                             "c = Context(name='verbena_lo')\nMR(PD(c), 4096, 1)\ntry:\n    c.query_gid(1, 200)\n"
                             "except Exception as e: print(e)\n")
        for link in ("wire", "local"):
            result, told = self.tell(python, program, link=link)
            self.assertEqual(0, result.returncode, result.stderr)
            self.has(told, r"ibv_open_device\(device=verbena_lo\) = context 1", "ibv_reg_mr.* access=LOCAL_WRITE.* = mr 1",
                     r"ibv_query_gid\(context 1, port_num=1, index=200\) = -1 E[A-Z]+ .*\(")


class Forms(Traced):
    def two_ends(self):
        return self.compile_file("two_ends", "-libverbs")

    def test_perfetto(self):
        file = os.path.join(self.folder, "trace.json")
        self.assertEqual(0, run(VERBENA, "trace", "-o", file, "--", self.two_ends(), "send", "write").returncode)
        with open(file, encoding="utf-8") as told:
            events = json.load(told)
        phases = {event["ph"] for event in events}
        self.assertLessEqual({"M", "X", "i", "s", "f"}, phases)
        for event in events:
            if event["ph"] == "X":
                self.assertLessEqual({"name", "ts", "dur", "pid", "tid"}, event.keys())
        names = [event["name"] for event in events]
        self.assertIn("rc_send_only", names)
        self.assertIn("ibv_post_send", names)
        self.assertIn("completion IBV_WC_RDMA_WRITE", names)

    def test_record(self):
        for link in ("wire", "local"):
            result, told = self.tell(self.two_ends(), "send", link=link, command="record")
            self.assertEqual((0, "send success\nreceived success 1\n"), (result.returncode, result.stdout))
            events = [json.loads(line) for line in told.splitlines()]
            self.assertEqual("process", events[0]["k"])
            self.assertEqual("send", events[0]["argv"][1])
            kinds = {event["k"] for event in events}
            self.assertEqual({"process", "call", "wc", "qp", "packet"}, kinds)
            frames = [base64.b64decode(event["frame"]) for event in events if event["k"] == "packet"]
            self.assertIn(0x04, {frame[28] for frame in frames})  # RC SEND ONLY behind IPv4 and UDP

    def test_what_is_there_stays_until_something_comes(self):
        file = self.write("kept", "precious")
        for command in ("trace", "record"):
            for words, status in ((["/nowhere/program"], 127), (["/"], 126), (["--fault", "explode", "--", "true"], 2)):
                result = run(VERBENA, command, "-o", file, *words)
                self.assertEqual(status, result.returncode, result.stderr)
                self.assertEqual("precious", pathlib.Path(file).read_text(encoding="utf-8"))
        self.assertEqual(2, run(VERBENA, "record", "-o", file + ".new", "--fault", "explode", "--", "true").returncode)
        self.assertFalse(os.path.exists(file + ".new"))

    def test_a_file_of_one_command(self):
        for command in ("trace", "record"):
            file = os.path.join(self.folder, command)
            first = subprocess.Popen([VERBENA, command, "-o", file, "--", "sh", "-c", "echo; read line"], env=ENVIRONMENT,
                                     stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            self.addCleanup(first.kill)
            first.stdout.readline()
            second = run(VERBENA, command, "-o", file, "--", "true")
            self.assertEqual((1, f"verbena: {file}: another verbena command is writing to it\n"),
                             (second.returncode, second.stderr))
            first.communicate(b"\n", timeout=SECONDS)

    def test_a_recording_tells_of_its_faults(self):
        _, told = self.tell(self.two_ends(), "send", options=("--fault", "drop opcode=send nth=1; fail call=ibv_reg_mr nth=9 errno=ENOMEM"),
                            command="record")
        faults = [event for event in map(json.loads, told.splitlines()) if event["k"] == "fault"]
        self.assertEqual([("drop opcode=send nth=1", 1), ("fail call=ibv_reg_mr nth=9 errno=ENOMEM", 0)],
                         [(fault["plan"], fault["fired"]) for fault in faults])

    def test_what_is_left_out(self):
        _, told = self.tell(self.two_ends(), "send", options=("--no-data",))
        self.assertNotIn("ibv_post_", told)
        self.assertNotIn("rc_send", told)
        self.assertIn("ibv_modify_qp", told)
        _, told = self.tell(self.two_ends(), "send", options=("-e", "ibv_post_*,ibv_reg_mr*", "--no-packets"))
        self.assertEqual({"ibv_post_send", "ibv_post_recv", "ibv_reg_mr"},
                         {name.replace("_iova2", "") for name in re.findall(r" (ibv_\w+)\(", told)})
        self.assertNotIn("~", told)

    def frames(self, told):
        return [base64.b64decode(event["frame"]) for event in map(json.loads, told.splitlines()) if event["k"] == "packet"]

    def test_a_recording_without_data(self):
        _, told = self.tell(self.two_ends(), "send", link="wire", options=("--no-data",), command="record")
        self.assertEqual([], self.frames(told))

    def test_a_recording_is_of_one_program(self):
        """The packets of another one are its own."""
        file = os.path.join(self.folder, "told")
        program, settings = self.two_ends(), dict(ENVIRONMENT, VERBENA_LINK="wire")
        started = subprocess.Popen([VERBENA, "record", "-o", file, "--", "sh", "-c", 'echo; read line; exec "$0" send', program],
                                   env=settings, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.addCleanup(started.kill)
        started.stdout.readline()
        self.assertEqual(0, run(VERBENA, "run", "--", program, "write", env=settings).returncode)
        started.communicate("\n", timeout=SECONDS)
        opcodes = {frame[28] for frame in self.frames(pathlib.Path(file).read_text(encoding="utf-8"))}
        self.assertIn(0x04, opcodes)  # RC SEND ONLY
        self.assertNotIn(0x0A, opcodes)  # RC RDMA WRITE ONLY

    def test_a_forked_child_begins_before_its_first_call(self):
        program = self.compile("forks", r"""
            #include <infiniband/verbs.h>
            #include <sys/wait.h>
            #include <unistd.h>
            int main(void) {
                ibv_fork_init();
                if (!fork()) return ibv_fork_init();
                return wait(0) < 0;
            }""", "-libverbs")
        _, told = self.tell(program, options=("--no-packets",), command="record")
        events = [json.loads(each) for each in told.splitlines()]
        self.assertEqual(["process", "call"] * 2, [event["k"] for event in events])
        for process, call in (events[:2], events[2:]):
            self.assertEqual(process["pid"], call["pid"])
            self.assertLessEqual(process["t"], call["t"])

    def test_a_daemon_that_goes(self):
        settings = dict(ENVIRONMENT, VERBENA_FABRIC=ENVIRONMENT["VERBENA_FABRIC"] + "-goes")
        started = subprocess.Popen([VERBENA, "trace", "--", "sh", "-c", "echo; read line"], env=settings, stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(started.kill)
        started.stdout.readline()
        daemon = json.loads(run(VERBENA, "status", "-j", env=settings).stdout)["daemon"]["pid"]
        os.kill(daemon, signal.SIGKILL)
        self.assertEqual("verbena: the daemon is gone; no packets from here on\n", started.stderr.readline())
        _, errors = started.communicate("\n", timeout=SECONDS)
        self.assertEqual((0, ""), (started.returncode, errors))

    def test_reasons_and_faults(self):
        result, told = self.tell(self.two_ends(), "send", options=("--fault", "drop opcode=send"))
        self.assertEqual("send transport retry counter exceeded", result.stdout.splitlines()[0])
        self.has(told, "# Verbena fault: drop opcode=send", r"IBV_WC_RETRY_EXC_ERR .*vendor_err=.*\(.*retry_cnt")
        result, told = self.tell(self.two_ends(), "send", options=("--fault", "fail call=ibv_create_qp errno=EPERM"))
        self.assertEqual(3, result.returncode)
        self.has(told, r"ibv_create_qp\(.* = NULL EPERM")

    def test_over_the_distributions_libraries(self):
        if preloadable(LIBRARIES) != LIBRARIES:
            result = run(VERBENA, "trace", "--system", "--", "ibv_devices")
            self.assertEqual((1, ""), (result.returncode, result.stdout))
            self.assertIn("LD_PRELOAD takes no names with spaces", result.stderr)
            return
        result, told = self.tell("ibv_devices", options=("--system",))
        self.has(told, r"ibv_get_device_list\(\) = ")
        self.assertNotIn("verbena_", result.stdout)
        whose = self.compile("whose", WHOSE, "-lrdmacm", "-libverbs")
        result, told = self.tell(whose, options=("--system",))
        self.assertNotIn(LIBRARIES, told)
        self.has(told, r"ibv_get_device_list\(")
        result = run(VERBENA, "trace", "--system", "--fault", "drop", "--", "true")
        self.assertEqual(2, result.returncode)
        self.assertIn("'drop' needs Verbena's libraries", result.stderr)


class Losses(Traced):
    """Programs whose events' file takes no more, for a while or for good."""

    def lose(self, command, *words):
        program = self.compile("loses", r"""
            #include <infiniband/verbs.h>
            #include <signal.h>
            #include <stdlib.h>
            #include <sys/resource.h>
            #include <sys/stat.h>
            int main(int count, char** words) {
                struct stat file;
                struct rlimit limit, before;
                ibv_fork_init();
                if (stat(getenv("VERBENA_TRACE_EVENTS"), &file) || getrlimit(RLIMIT_FSIZE, &before)) return 1;
                signal(SIGXFSZ, SIG_IGN);
                limit = before;
                limit.rlim_cur = file.st_size + 30; /* half a line */
                setrlimit(RLIMIT_FSIZE, &limit);
                for (int i = 0; i < 3; i++) ibv_fork_init();
                if (count > 1) setrlimit(RLIMIT_FSIZE, &before);
                return count > 1 && ibv_fork_init();
            }""", "-libverbs")
        result, told = self.tell(program, *words, options=("--no-packets",), command=command)
        self.assertEqual(1, result.returncode)
        self.assertRegex(result.stderr, "^verbena: .*: File too large; 3 events are missing\n$")
        return told

    def test_for_good(self):
        told = self.lose("record")
        self.assertEqual(["process", "call"], [json.loads(each)["k"] for each in told.splitlines()[:2]])
        self.assertEqual(30, len(told.splitlines()[2]))
        self.lose("trace")

    def test_for_a_while(self):
        told = self.lose("record", "again").splitlines()
        self.assertEqual(30, len(told[2]))
        lost, call = map(json.loads, told[3:])
        self.assertEqual(("lost", 3, "EFBIG"), (lost["k"], lost["count"], lost["errno"]))
        self.assertEqual("ibv_fork_init", call["call"])
        self.has(self.lose("trace", "again"), "ibv_fork_init", "ibv_fork_init")
        result = run(VERBENA, "report", "-o", "-", self.write("lost.vrec", "\n".join(told)))
        self.assertEqual(0, result.returncode, result.stderr)
        self.assertRegex(result.stdout, r"lost\.vrec: loses \(pid [0-9]+\) could not write 3 events \(EFBIG\); they are missing")
        self.assertRegex(result.stdout, r"lost\.vrec:3: parse error .*; the line is left out")

    def test_a_device_that_is_full(self):
        result = run(VERBENA, "record", "--no-packets", "-o", "/dev/full", "--", "ibv_devices")
        self.assertEqual(1, result.returncode)
        self.assertRegex(result.stderr, "^verbena: /dev/full: No space left on device; [0-9]+ events are missing\n$")


class Undisturbed(Traced):
    def test_exit_status_and_output(self):
        result = run(VERBENA, "trace", "--", "sh", "-c", "echo out; echo err >&2; exit 7")
        self.assertEqual((7, "out\n", "err\n"), (result.returncode, result.stdout, result.stderr))  # nothing called, nothing told
        result = run(VERBENA, "trace", "--", "sh", "-c", "kill -TERM $$")
        self.assertEqual(-signal.SIGTERM, result.returncode)
        self.assertEqual(127, run(VERBENA, "trace", "--", "/nowhere/program").returncode)
        self.assertEqual(2, run(VERBENA, "trace").returncode)

    def test_what_hangs_is_seen(self):
        program = self.compile("hang", r"""
            #include <rdma/rdma_cma.h>
            #include <pthread.h>
            #include <unistd.h>
            #include <stdio.h>
            static void* wait_for(void* channel) {
                struct rdma_cm_event* event;
                rdma_get_cm_event(channel, &event);
                return 0;
            }
            int main(void) {
                struct rdma_event_channel* channel = rdma_create_event_channel();
                pthread_t thread;
                void* result;
                pthread_create(&thread, 0, wait_for, channel);
                usleep(100000);
                pthread_cancel(thread);
                pthread_join(thread, &result);
                puts(result == PTHREAD_CANCELED ? "canceled" : "returned");
                fflush(stdout);
                if (!fork()) {  /* a child tells for itself */
                    struct rdma_event_channel* own = rdma_create_event_channel();
                    rdma_destroy_event_channel(own);
                    _exit(0);
                }
                wait_for(channel);
            }""", "-lrdmacm", "-lpthread")
        file = os.path.join(self.folder, "told")
        started = subprocess.Popen([VERBENA, "trace", "-o", file, "--", program], env=ENVIRONMENT, stdout=subprocess.PIPE, text=True)
        self.addCleanup(started.kill)
        self.assertEqual("canceled\n", started.stdout.readline())
        for _ in range(100):
            with open(file, encoding="utf-8") as told:
                if "rdma_destroy_event_channel" in told.read():
                    break
            time.sleep(0.05)
        started.terminate()
        self.assertEqual(-signal.SIGTERM, started.wait(SECONDS))
        started.stdout.close()
        with open(file, encoding="utf-8") as told:
            text = told.read()
        self.assertEqual(2, len(re.findall(r"rdma_get_cm_event\(event_channel 1 <unfinished ...>", text)), text)
        self.assertEqual(2, text.count("* process "), text)

    def test_descriptors_that_programs_close(self):
        program = self.compile("closes", r"""
            #define _GNU_SOURCE
            #include <rdma/rdma_cma.h>
            #include <unistd.h>
            #include <fcntl.h>
            #include <stdio.h>
            int main(int argc, char** argv) {
                rdma_destroy_event_channel(rdma_create_event_channel());
                close_range(3, ~0u, 0);
                for (int fd = 3; fd < 600; fd++) if (open(argv[1], O_RDWR | O_CREAT | O_APPEND, 0600) < 0) break;
                close(3), close(4), close(5), close(6), close(7), close(8);
                struct rdma_addrinfo* info = 0;
                rdma_getaddrinfo("127.0.0.1", "1", 0, &info);
                return 0;
            }""", "-lrdmacm")
        own = os.path.join(self.folder, "own")
        result, told = self.tell("sh", "-c", f"ulimit -n 4096; exec {program} {own}")
        self.assertEqual(0, result.returncode, result.stderr)
        self.has(told, "rdma_create_event_channel", 'rdma_getaddrinfo\\(node="127.0.0.1", service="1"')
        self.assertEqual(0, os.path.getsize(own))


if __name__ == "__main__":
    unittest.main()
