"""Runs a yardstick, iperf3, or a pair of perftest's programs, and finds the figure in what they print."""

import dataclasses
import os
import re
import subprocess
import time

import programs

SECONDS = 120  # no single run takes longer
GIGABYTE = 1e9
PORT = 18600


def environment(more):
    return {**os.environ, **dict(more)}


class Failed(Exception):
    """A program did not end well; the text has its last line."""


@dataclasses.dataclass
class Figure:
    value: float
    cpu: float | None = None  # both processes' seconds of processor time for each GB


def wait_for(server, port):
    """Until the server listens."""
    for _ in range(500):
        if server.poll() is not None:
            break
        if programs.listens(server.pid, port):
            return
        time.sleep(0.01)
    server.kill()
    raise Failed("the server does not listen: " + last_line(server.communicate()[0]))


class Perftest:
    """A place for pairs: what stands in front of the programs' words on either side, and where the server is."""

    def __init__(self, build, settings=(), server_at="127.0.0.1", device="verbena_lo", wrap=((), ())):
        self.environment = environment({"LD_LIBRARY_PATH": str(build / "lib"), **dict(settings)})
        self.server_at, self.device, self.wrap = server_at, device, wrap

    def latency(self, program, *words):
        return Figure(float(self.pair(program, *words)[0][4]))  # t_typical, us

    def bandwidth(self, program, size, iterations, *words):
        columns, seconds = self.pair(program, "-s", str(size), "-n", str(iterations), *words)
        return Figure(float(columns[3]) * 2**20 / GIGABYTE, seconds * GIGABYTE / (size * iterations))

    def rate(self, program, iterations, *words):
        return Figure(float(self.pair(program, "-s", "8", "-n", str(iterations), *words)[0][4]))  # millions a second

    def pair(self, program, *words):
        """The columns of the report's last line, and the seconds of processor time of both sides."""
        command = [program, "-d", self.device, "-x", "0", "-F", "-p", str(PORT), *words]
        before = os.times()
        server = self.start(self.wrap[0], 0, command)
        try:
            wait_for(server, PORT)
            client = self.start(self.wrap[1], 1, [*command, self.server_at])
            output = self.end(client, program)
            self.end(server, program)
        finally:
            server.kill()
            server.wait()
        after = os.times()
        used = after.children_user + after.children_system - before.children_user - before.children_system
        rows = [line.split() for line in output.splitlines() if re.fullmatch(r"[\d.\s]+", line) and len(line.split()) >= 5]
        if not rows:
            raise Failed(f"{program} printed no figures")
        return rows[-1], used

    def connection(self, count):
        """What cmtime says that all steps of one connection take, in us: from rdma_create_id to rdma_destroy_id."""
        server = self.start(self.wrap[0], 0, ["cmtime", "-b", self.server_at, "-p", str(PORT)])
        try:
            time.sleep(0.5)  # it listens in a port space of its own, where nobody can look
            output = self.end(self.start(self.wrap[1], 1, ["cmtime", "-s", self.server_at, "-p", str(PORT), "-c", str(count)]), "cmtime")
        finally:
            server.kill()
            server.wait()
        steps = re.findall(r"^[a-z ]+: +[\d.]+ +[\d.]+ +[\d.]+ +([\d.]+)$", output, re.MULTILINE)
        if len(steps) != 7:
            raise Failed("cmtime printed no figures")
        return Figure(sum(map(float, steps)))

    def shared_load(self, program, count, kind):
        """Millions of messages a second that one process sends another over so many queue pairs; the program stays on a processor for
        each end by itself."""
        done = subprocess.run([str(program), str(count), kind], env=self.environment, capture_output=True, text=True, timeout=SECONDS,
                              check=False)
        found = re.search(r"([\d.]+) M messages/s", done.stdout)
        if done.returncode != 0 or not found:
            raise Failed(f"shared_load: {last_line(done.stdout + done.stderr)}")
        return Figure(float(found.group(1)))

    def start(self, wrap, processor, command):
        return subprocess.Popen([*wrap, "taskset", "-c", str(processor), *command], env=self.environment, text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    def end(self, process, program):
        try:
            output, _ = process.communicate(timeout=SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            raise Failed(f"{program} has not ended after {SECONDS} s") from None
        if process.returncode != 0:
            raise Failed(f"{program}: {last_line(output)}")
        return output


def yardstick(folder, *words, pattern, wrap=()):
    """The first group of the pattern in what the program prints."""
    try:
        done = subprocess.run([*wrap, str(folder / words[0]), *words[1:]], capture_output=True, text=True, timeout=SECONDS,
                              check=False)
    except subprocess.TimeoutExpired:
        raise Failed(f"{' '.join(words)} has not ended after {SECONDS} s") from None
    found = re.search(pattern, done.stdout)
    if done.returncode != 0 or not found:
        raise Failed(f"{' '.join(words)}: {last_line(done.stdout + done.stderr)}")
    return float(found.group(1))


def tcp_stream(server_wrap, client_wrap, address, seconds=2):
    """GB/s of one iperf3 stream."""
    server = subprocess.Popen([*server_wrap, "taskset", "-c", "0", "iperf3", "-s", "-1", "-p", str(PORT)],
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(50):
            time.sleep(0.1)
            client = subprocess.run([*client_wrap, "taskset", "-c", "1", "iperf3", "-c", address, "-p", str(PORT), "-f", "g",
                                     "-t", str(seconds)], capture_output=True, text=True, timeout=SECONDS, check=False)
            found = re.search(r"([\d.]+) Gbits/sec\s+receiver", client.stdout)
            if found:
                return float(found.group(1)) / 8
        raise Failed("iperf3: " + last_line(client.stdout + client.stderr))
    finally:
        server.kill()
        server.wait()


def last_line(text):
    return (text or "").strip().splitlines()[-1] if (text or "").strip() else "no output"
