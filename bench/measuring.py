"""Runs a yardstick, iperf3, or a pair of perftest's programs, and finds the figure in what they print."""

import dataclasses
import os
import pathlib
import re
import subprocess
import time

import programs

SECONDS = 120  # no single run takes longer
GIGABYTE = 1e9
ACTIVE, PASSIVE = 0, 1  # the sides' processors: who begins is where the yardsticks have him, as no two are of one speed
PORT = 18600
ATTEMPTS = 3  # perftest times the processor's clock when it starts; when that was disturbed its figures are 0, inf or nan


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


def processor_seconds():
    """Of all programs that have ended."""
    times = os.times()
    return times.children_user + times.children_system


def printed(command, pattern, env=None):
    """The number that is the first group of the pattern in what the program prints."""
    name = os.path.basename(command[0])
    try:
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired:
        raise Failed(f"{name} has not ended after {SECONDS} s") from None
    return found(name, done.returncode, done.stdout + done.stderr, pattern)


def found(name, code, output, pattern):
    match = re.search(pattern, output)
    if code != 0 or not match:
        raise Failed(f"{name}: {last_line(output)}")
    return float(match.group(1))


class Pair:
    """Stock programs in pairs: where the server is, by which device, and what they say. Where they run is for others to say:
    both(server's words, client's words, port) runs them and returns what the client printed."""

    def __init__(self, server_at, device, index):
        self.server_at, self.device, self.index = server_at, device, index

    def latency(self, program, *words):
        return Figure(float(self.pair(program, *words)[0][4]))  # t_typical, us

    def bandwidth(self, program, size, iterations, *words):
        columns, seconds = self.pair(program, "-s", str(size), "-n", str(iterations), *words)
        return Figure(float(columns[3]) * 2**20 / GIGABYTE, seconds * GIGABYTE / (size * iterations))

    def rate(self, program, iterations, *words):
        return Figure(float(self.pair(program, "-s", "8", "-n", str(iterations), *words)[0][4]))  # millions a second

    def pair(self, program, *words):
        """The columns of the last line of perftest's report, and the seconds of processor time of both sides."""
        command = [program, "-d", self.device, "-x", str(self.index), "-F", "-p", str(PORT), *words]
        for _ in range(ATTEMPTS):
            before = processor_seconds()
            output = self.both(command, [*command, self.server_at], PORT)
            used = processor_seconds() - before
            rows = [line.split() for line in output.splitlines() if re.fullmatch(r"[\d.\s]+", line) and len(line.split()) >= 5]
            if rows and float(rows[-1][3]) > 0:
                return rows[-1], used
        raise Failed(f"{program} printed no figures")

    def connection(self, count):
        """What cmtime says that all steps of one connection take, in us: from rdma_create_id to rdma_destroy_id."""
        words = ["cmtime", "-p", str(PORT)]
        output = self.both([*words, "-b", self.server_at], [*words, "-s", self.server_at, "-c", str(count)], None)
        steps = re.findall(r"^[a-z ]+: +[\d.]+ +[\d.]+ +[\d.]+ +([\d.]+)$", output, re.MULTILINE)
        if len(steps) != 7:
            raise Failed("cmtime printed no figures")
        return Figure(sum(map(float, steps)))


class Perftest(Pair):
    """Pairs on this host over a build; wrap: what stands in front of the programs' words on either side."""

    def __init__(self, build, settings=(), server_at="127.0.0.1", device="verbena_lo", wrap=((), ())):
        super().__init__(server_at, device, 0)
        self.environment = environment({"LD_LIBRARY_PATH": str(build / "lib"), **dict(settings)})
        self.wrap = wrap

    def own(self, program, *words, pattern, gigabytes=None):
        """The figure of a program that makes both ends by itself and puts each on a processor."""
        before = processor_seconds()
        value = printed([*self.wrap[0], str(program), *words], pattern, self.environment)
        return Figure(value, (processor_seconds() - before) / gigabytes if gigabytes else None)

    def both(self, server_words, client_words, port):
        """Without a port: a server that listens where nobody can look, and does not end by itself."""
        server = self.start(self.wrap[0], PASSIVE, server_words)
        try:
            if port:
                wait_for(server, port)
            else:
                time.sleep(0.5)
            output = self.end(self.start(self.wrap[1], ACTIVE, client_words), client_words[0])
            if port:
                self.end(server, server_words[0])
        finally:
            server.kill()
            server.wait()
        return output

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


class Bare(Perftest):
    """The stock programs themselves: over a bare ring and bare system calls in place of our library's work (bare_provider.cpp)."""

    def __init__(self, build, settings):
        super().__init__(build, settings)
        self.library = str(build / "bench/libbare_provider.so")
        self.ring = f"/dev/shm/bare-{os.getpid()}"

    def both(self, server_words, client_words, port):
        try:
            output = super().both(server_words, client_words, port)
        finally:
            pathlib.Path(self.ring).unlink(missing_ok=True)
        return said_bare(output)

    def start(self, wrap, processor, command):
        return super().start([*bare_words(self.library, self.ring, processor), *wrap], processor, command)


def bare_words(library, ring, processor):
    """What stands in front of a stock program that is to be measured itself."""
    return ["env", f"LD_PRELOAD={library}", f"BARE_RING={ring}", f"BARE_SIDE={processor}"]


def said_bare(output):
    if "bare_provider" not in output:
        raise Failed("the bare provider was not loaded")
    return output


def yardstick(folder, *words, pattern):
    return printed([str(folder / words[0]), *words[1:]], pattern)


def tcp_stream(server_wrap, client_wrap, address, seconds=2):
    """GB/s of one iperf3 stream."""
    server = subprocess.Popen([*server_wrap, "taskset", "-c", str(PASSIVE), "iperf3", "-s", "-1", "-p", str(PORT)],
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(50):
            time.sleep(0.1)
            client = subprocess.run([*client_wrap, "taskset", "-c", str(ACTIVE), "iperf3", "-c", address, "-p", str(PORT),
                                     "-f", "g", "-t", str(seconds)], capture_output=True, text=True, timeout=SECONDS, check=False)
            found = re.search(r"([\d.]+) Gbits/sec\s+receiver", client.stdout)
            if found:
                return float(found.group(1)) / 8
        raise Failed("iperf3: " + last_line(client.stdout + client.stderr))
    finally:
        server.kill()
        server.wait()


def last_line(text):
    return (text or "").strip().splitlines()[-1] if (text or "").strip() else "no output"
