#!/usr/bin/env python3
"""observe_test.py BUILD: what the counters say of bytes that went over RDMA, and what rdma resource, ps, top, stat, metrics
and doctor say of a program that is running."""

import json
import os
import re
import shutil
import subprocess
import sys
import unittest

from tool import ENVIRONMENT, VERBENA, Case, run

SIZE = 3_000_000
LINK = "verbena_lo"
PORT = f"/sys/class/infiniband/{LINK}/ports/1"

SERVER = """
import http.server
class Quiet(http.server.SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def log_message(self, *_): pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Quiet)
print(server.server_port, flush=True)
server.serve_forever()
"""
# Stays connected until it is told to go.
CLIENT = """
import http.client, sys
connection = http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]), timeout=20)
connection.request("GET", "/file")
print(len(connection.getresponse().read()), flush=True)
sys.stdin.read()
"""


def under(*command, **options):
    return run(VERBENA, "run", "--", *command, **options)


def look(*words, **options):
    """The JSON that a command of verbena's prints."""
    result = run(VERBENA, *words, "-j", **options)
    if result.returncode != 0:
        raise AssertionError(result.stderr)
    return json.loads(result.stdout)


def rdma(*words):
    return json.loads(under("rdma", "-j", *words).stdout)


def counters(link=LINK):
    return next(entry["counters"] for entry in look("stat", "-a") if entry["ifname"] == link)


def sysfs(*names):
    return [int(line) for line in under("cat", *(f"{PORT}/{name}" for name in names)).stdout.split()]


class Running(Case):
    """A web server and its client, both over RDMA."""

    def start(self, *command, **options):
        process = subprocess.Popen([VERBENA, "run", "--sockets", "--", sys.executable, "-c", *command], text=True,
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=ENVIRONMENT, **options)
        self.addCleanup(process.wait)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.stdin.close)
        self.addCleanup(process.kill)
        return process

    def serve(self):
        self.write("www/file", "x" * SIZE)
        self.server = self.start(SERVER, cwd=os.path.join(self.folder, "www"))
        self.port = self.server.stdout.readline().strip()

    def fetch(self):
        client = self.start(CLIENT, self.port)
        self.assertEqual(f"{SIZE}\n", client.stdout.readline())
        return client

    def test_the_counters_show_the_bytes(self):
        self.serve()
        before = counters()
        client = self.fetch()
        while_it_lives = counters()
        client.kill()
        client.wait()
        # Which of the two the daemon has noticed as gone by now makes no difference.
        after = counters()
        for name in ("port_xmit_data", "port_rcv_data"):
            self.assertGreaterEqual(4 * (while_it_lives[name] - before[name]), SIZE, name)
        for name in ("port_xmit_packets", "port_rcv_packets", "sent_pkts", "rcvd_pkts"):
            self.assertGreater(while_it_lives[name], before[name] + SIZE // 4096, name)
        for name, value in while_it_lives.items():
            self.assertLessEqual(value, after[name], name)

    def test_sysfs_and_rdma_statistic_say_the_same(self):
        self.serve()
        self.fetch()
        known = counters()
        data, packets, sent = sysfs("counters/port_xmit_data", "counters/port_xmit_packets", "hw_counters/sent_pkts")
        self.assertGreaterEqual(data, known["port_xmit_data"])
        self.assertGreaterEqual(4 * data, SIZE)
        self.assertGreaterEqual(packets, known["port_xmit_packets"])
        self.assertGreaterEqual(rdma("statistic", "show", "link", f"{LINK}/1")[0]["sent_pkts"], sent)
        names = under("ls", f"{PORT}/counters", f"{PORT}/hw_counters").stdout.split()
        self.assertEqual({name for name in known} - set(names), set())
        for text in (under("rdma", "statistic").stdout, under("rdma", "statistic", "show", "link", LINK).stdout):
            self.assertRegex(text, rf"(?m)^link {LINK}/1 sent_pkts \d+ rcvd_pkts \d+ duplicate_request \d+ .* rdma_recvs \d+ $")
        self.assertIn(f"link {LINK}/1 \n    sent_pkts ", under("rdma", "-p", "statistic", "show").stdout)

    def test_objects_of_a_program(self):
        self.serve()
        self.fetch()
        pid = self.server.pid
        found = {kind: [each for each in rdma("resource", "show", kind) if each["pid"] == pid]
                 for kind in ("qp", "cq", "mr", "pd", "ctx", "cm_id")}
        for kind, objects in found.items():
            self.assertTrue(objects, kind)
            for each in objects:
                self.assertTrue(each["comm"].startswith("python3"), each)
                self.assertTrue(each["ifname"].startswith("verbena_"), each)
        qp = found["qp"][0]
        self.assertEqual(("RC", "RTS", 1), (qp["type"], qp["state"], qp["port"]))
        peers = rdma("resource", "show", "qp", "link", LINK, "lqpn", str(qp["rqpn"]))
        self.assertEqual([qp["lqpn"]], [peer["rqpn"] for peer in peers])
        self.assertIn("LISTEN", [each["state"] for each in found["cm_id"]])
        connected = [each for each in found["cm_id"] if each.get("lqpn") == qp["lqpn"]]
        self.assertEqual("TCP", connected[0]["ps"])
        self.assertEqual(f"127.0.0.1:{self.port}", connected[0]["src-addr"])
        self.assertRegex(under("rdma", "resource", "show", "qp", "pid", str(pid)).stdout,
                         rf"(?m)^link {LINK}/1 lqpn \d+ pdn \d+ rqpn \d+ type RC state RTS rq-psn \d+ sq-psn \d+ "
                         rf"path-mig-state MIGRATED pid {pid} comm python3\S* $")
        self.assertRegex(under("rdma", "resource").stdout,
                         rf"(?m)^\d+: {LINK}: pd \d+ cq \d+ qp \d+ cm_id \d+ mr \d+ ctx \d+ srq \d+ $")
        self.assertEqual([], rdma("resource", "show", "qp", "pid", "1"))
        self.assertEqual(1, under("rdma", "resource", "show", "qp", "link", "nobody/1").returncode)
        each = rdma("statistic", "qp", "show", "link", LINK, "pid", str(pid))[0]
        self.assertEqual([each["cntn"]], each["lqpn"])
        self.assertGreater(each["sent_pkts"], SIZE // 4096)

    def test_ps_top_and_stat(self):
        self.serve()
        self.fetch()
        pid = self.server.pid
        program = next(each for each in look("ps") if each["pid"] == pid)
        self.assertGreaterEqual(program["sent_bytes"], SIZE)
        self.assertGreaterEqual(program["qp"], 1)
        self.assertIn(LINK, program["devices"])
        self.assertRegex(run(VERBENA, "ps").stdout, rf"(?m)^ *{pid} ")
        lines = run(VERBENA, "top", "-n", "2", "-d", "0.05", "-j").stdout.splitlines()
        self.assertEqual(2, len(lines))
        self.assertIn(pid, [each["pid"] for each in json.loads(lines[1])["programs"]])
        self.assertRegex(run(VERBENA, "top", "-n", "1", "-d", "0.05").stdout, rf"(?m)^ *{pid} ")
        queue_pairs = look("stat", "--pid", str(pid))
        self.assertGreaterEqual(4 * sum(each["counters"].get("port_xmit_data", 0) for each in queue_pairs), SIZE)
        self.assertIn("    port_xmit_data ", run(VERBENA, "stat").stdout)

    def test_metrics(self):
        self.serve()
        self.fetch()
        lines = run(VERBENA, "metrics").stdout.splitlines()
        self.assertEqual("# EOF", lines[-1])
        families, samples = {}, {}
        for line in lines[:-1]:
            if words := re.fullmatch(r"# (TYPE|HELP) (\S+) (.+)", line):
                families.setdefault(words[2], {})[words[1]] = words[3]
            else:
                words = re.fullmatch(r'(node_infiniband_\w+)\{(\w+="[^"]*"(?:,\w+="[^"]*")*)\} (\d+)', line)
                self.assertIsNotNone(words, line)
                self.assertNotIn((words[1], words[2]), samples)
                samples[words[1], words[2]] = int(words[3])
        for name, labels in samples:
            family = families[name.removesuffix("_total")]
            self.assertEqual("counter" if name.endswith("_total") else "gauge", family["TYPE"], name)
        self.assertGreaterEqual(samples["node_infiniband_port_data_transmitted_bytes_total", f'device="{LINK}",port="1"'], SIZE)
        self.assertEqual(4, samples["node_infiniband_state_id", f'device="{LINK}",port="1"'])


class ThroughMemory(Case):
    @unittest.skipUnless(shutil.which("rping"), "no rping")
    def test_what_went_through_memory_counts(self):
        """A READ and a WRITE of 20000 bytes for each ping and pong, executed by the peer."""
        settings = dict(ENVIRONMENT, VERBENA_LINK="local", VERBENA_FABRIC=ENVIRONMENT["VERBENA_FABRIC"] + "-local")

        def known():
            return next(each["counters"] for each in look("stat", "-a", env=settings) if each["ifname"] == LINK)

        before = known()
        server = subprocess.Popen([VERBENA, "run", "--", "rping", "-s", "-P", "-a", "127.0.0.1", "-p", "7391", "-S", "20000"],
                                  env=settings, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(server.wait)
        self.addCleanup(server.kill)
        words = ("rping", "-c", "-a", "127.0.0.1", "-p", "7391", "-C", "10", "-S", "20000")
        client = under(*words, env=settings)
        for _ in range(50):  # until the server listens
            if client.returncode == 0:
                break
            client = under(*words, env=settings)
        self.assertEqual(0, client.returncode, client.stderr)
        after = known()
        for name in ("port_xmit_data", "port_rcv_data"):
            self.assertGreaterEqual(4 * (after[name] - before[name]), 10 * 2 * 20000, name)
        for name in ("port_xmit_packets", "port_rcv_packets"):
            self.assertGreaterEqual(after[name] - before[name], 10 * 2 * 5, name)


# Has a device open, under a name that a fork or a cut at 15 bytes may leave; waits until it is told to go.
NAMED = r"""
#include <infiniband/verbs.h>
#include <stdio.h>
#include <sys/prctl.h>
int main(void) {
    prctl(PR_SET_NAME, "\x1b[2J\x7f\xe4\xb8");  /* clears a screen; half a character */
    struct ibv_device** list = ibv_get_device_list(0);
    struct ibv_context* context = ibv_open_device(list[0]);
    struct ibv_pd* pd = context ? ibv_alloc_pd(context) : 0;
    struct ibv_cq* cq = pd ? ibv_create_cq(context, 1, 0, 0, 0) : 0;
    struct ibv_qp_init_attr init = {.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC};
    puts(cq && ibv_create_qp(pd, &init) ? "ready" : "no device");
    fflush(stdout);
    getchar();
    return 0;
}
"""


class Names(Case):
    def test_names_that_are_no_text(self):
        program = self.compile("named", NAMED, "-libverbs")
        settings = dict(ENVIRONMENT, VERBENA_FABRIC=ENVIRONMENT["VERBENA_FABRIC"] + "-names")
        started = subprocess.Popen([VERBENA, "run", "--", program], env=settings, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.addCleanup(started.wait)
        self.addCleanup(started.stdin.close)
        self.addCleanup(started.stdout.close)
        self.addCleanup(started.kill)
        self.assertEqual(b"ready\n", started.stdout.readline())
        self.assertEqual(0, run(VERBENA, "fault", "all", "drop", env=settings).returncode)
        name = "?[2J?\ufffd"
        for words in (("ps",), ("stat", "--pid", str(started.pid), "-a"), ("fault", "--list")):
            self.assertEqual([name], [each["comm"] for each in look(*words, env=settings)], words)
        top = json.loads(run(VERBENA, "top", "-n", "1", "-d", "0.01", "-j", env=settings).stdout)
        self.assertEqual([name], [each["comm"] for each in top["programs"]])
        pairs = json.loads(under("rdma", "-j", "resource", "show", "qp", env=settings).stdout)
        self.assertEqual([name], [each["comm"] for each in pairs])
        for words in (("ps",), ("stat", "--qp"), ("fault", "--list"), ("top", "-n", "1", "-d", "0.01"),
                      ("run", "--", "rdma", "resource", "show", "qp")):
            shown = subprocess.run([VERBENA, *words], env=settings, capture_output=True, check=True).stdout
            self.assertIn(b"?[2J?", shown)
            self.assertNotIn(b"\x1b", shown)


class Alone(Case):
    def test_doctor(self):
        result = run(VERBENA, "doctor", "-j")
        findings = {each["check"]: each for each in json.loads(result.stdout)}
        self.assertEqual({"ok"}, {findings[name]["result"] for name in ("installation", "daemon", "devices", "leftovers")})
        self.assertIn(findings["memory-exchange"]["result"], ("ok", "warn"))
        self.assertEqual(any(each["result"] == "fail" for each in findings.values()), result.returncode != 0)
        for each in findings.values():
            self.assertTrue(each["text"])
            self.assertTrue(each["result"] == "ok" or each["advice"], each)
        text = run(VERBENA, "doctor").stdout
        self.assertRegex(text, r"(?m)^ok    verbenad answers$")
        # The test's fabric is one of its own: who wants to reach another host or namespace with such a one reads why not.
        self.assertRegex(text, r'(?m)^ok    fabric "tool-test-\d+" is separate: its programs reach each other in this network '
                               r"namespace, nobody else$")
        self.assertRegex(text, r"(?m)^ok    \d+ devices, 0 of them with a way to other hosts$")

    def test_a_user_namespace(self):
        """Programs of another one have another daemon, and who asks why is told."""
        contained = ("unshare", "--user", "--map-root-user")
        if run(*contained, "true").returncode != 0:
            self.skipTest("no user namespaces")
        text = run(*contained, VERBENA, "doctor").stdout
        self.assertRegex(text, r"(?m)^ok    fabric .* this network namespace, nobody else, and nobody of another user namespace$")

    def test_help(self):
        result = run(VERBENA, "help")
        self.assertEqual((0, ""), (result.returncode, result.stderr))
        for command in ("run", "env", "status", "ps", "top", "stat", "metrics", "doctor", "handshake"):
            self.assertRegex(result.stdout, rf"(?m)^  {command} ")

    def test_a_program_that_is_not_there(self):
        for words in (("stat", "-p", "4194304"), ("stat", "-p", "4194304", "-j")):
            result = run(VERBENA, *words)
            self.assertEqual((1, ""), (result.returncode, result.stdout))
            self.assertIn("no program of pid 4194304", result.stderr)

    def test_without_proc(self):
        if run("unshare", "-m", "umount", "-l", "/proc").returncode != 0:
            self.skipTest("/proc cannot be taken away")
        for words in (("run", "--", "true"), ("doctor",)):
            result = run("unshare", "-m", "sh", "-c", 'umount -l /proc; exec "$0" "$@"', VERBENA, *words)
            self.assertEqual(1, result.returncode)
            self.assertIn("/proc is not mounted", result.stdout + result.stderr)

    def test_no_program(self):
        settings = dict(ENVIRONMENT, VERBENA_FABRIC=ENVIRONMENT["VERBENA_FABRIC"] + "-empty")
        self.assertEqual([], look("ps", env=settings))
        self.assertEqual(1, len(run(VERBENA, "ps", env=settings).stdout.splitlines()))
        self.assertEqual("", run(VERBENA, "ps", env=settings).stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv)
