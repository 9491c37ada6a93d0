"""Verbena beside Linux soft-RoCE (rxe) within one boot of the virtual machine of tests/interop: both ends of each in the guest,
one on each of its processors, rxe over the guest's interface, Verbena over one of a namespace of its own, since the kernel has
the port where rxe is. Both have MTU 1500, and neither's packets leave the guest. The lines that begin with "VM, bare" have a
yardstick in Verbena's place: what the guest can do with nothing of verbs in the way."""

import contextlib
import signal
import time

import guest as machine
import measuring
from line import ONE_WAY, Line

BUILD = "/verbena/build"  # in the guest
ADDRESS = "10.93.0.1"
PLACE = ("ip netns add measured", "ip -n measured link set lo up", "ip -n measured link add eth9 mtu 1500 type dummy",
         "ip -n measured link set eth9 up", f"ip -n measured address add {ADDRESS}/24 dev eth9")
LOOKS_EVERY = 0.3  # seconds: the guest's processors have to answer
SMALL = ("-s", "8", "-n", "10000")
# Verbena's way, its name, what is wanted of bandwidths and of latencies.
WAYS = (("wire", " by packets", 2, 0.5), ("local", "", 5, 0.2))


def bandwidth(pair, program):
    return pair.bandwidth(program, 65536, 5000)


def write_bandwidth(pair):
    return bandwidth(pair, "ib_write_bw")


def lists(pair):
    return pair.rate("ib_send_bw", 40960, "-l", "16")


def connection(pair):
    return pair.connection(100)


def send_latency(pair):
    return pair.latency("ib_send_lat", *SMALL)


# A yardstick's name in the table, its unit, what it prints, its words, and rxe's measure beside it.
BARE_LINES = (
    ("process_vm_writev 64 KiB", "GB/s", r"writev \d+ B: ([\d.]+) GB/s", "vm bw 65536", write_bandwidth),
    ("one TCP stream", "GB/s", r"([\d.]+) GB/s", "stream tcp 65536 2", write_bandwidth),
    ("shared memory 8 B", "us", ONE_WAY, "pingpong shm 1 10000 8", send_latency),
    ("UDP 8 B", "us", ONE_WAY, "pingpong udp 1 10000 8", send_latency),
    ("UDP, acknowledged 8 B", "us", r"one-way ([\d.]+) us", "udp_acked 10000", send_latency),
    ("process_vm_writev 8 B", "us", r"one-way ([\d.]+) us", "vm lat", lambda pair: pair.latency("ib_write_lat", *SMALL)),
)


class Booting:
    """Boots when it is first asked for, and not again if that fails. Subclasses have boot(image)."""

    booted = failed = None

    def running(self):
        """What boot() returned."""
        if not self.booted and not self.failed:
            try:
                image = machine.find_image()
                if not image:
                    raise machine.Unavailable("the guest could not be built")
                self.booted = self.boot(image)
            except machine.Unavailable as reason:
                self.failed = str(reason)
        if self.failed:
            raise measuring.Failed(self.failed)
        return self.booted


class Machine(Booting):
    def __init__(self, build, yardsticks, made):
        self.build, self.made = build, made
        bare = {words.split()[0] for *_, words, _ in BARE_LINES} if yardsticks else ()
        self.programs = [*(str(build / "bench" / name) for name in ("open_close", "sendmmsg_rate", "bare_answer", "bare_connection",
                                                               "libbare_provider.so")),
                         *(str(yardsticks / name) for name in sorted(bare))]

    def boot(self, image):
        network = self.made.enter_context(machine.Network(1500))
        guest = machine.Guest(network, 1, image, machine.acceleration(image), programs=self.programs,
                              build=str(self.build))
        self.made.callback(guest.end)
        for command in PLACE:
            status, text = guest.run(*command.split())
            if status:
                raise machine.Unavailable(f"in the guest: {command}: {text.strip()}")
        return guest


@contextlib.contextmanager
def failing_as_others():
    """A guest that has died, or lacks a program, fails a line, not the run."""
    try:
        yield
    except (machine.Unavailable, RuntimeError, FileNotFoundError) as reason:
        raise measuring.Failed(str(reason)) from None


class InGuest(measuring.Pair):
    """Pairs in the guest; wrap: what stands in front of the programs' words."""

    def __init__(self, computer, wrap, server_at, device, index):
        super().__init__(server_at, device, index)
        self.computer, self.wrap = computer, wrap

    @failing_as_others()
    def both(self, server_words, client_words, port):
        server = self.start(measuring.PASSIVE, server_words)
        try:
            if port:
                self.wait_for(server, lambda: server.ready(port) or server.code() is not None)
            else:
                time.sleep(3)
            output = self.end(self.start(measuring.ACTIVE, client_words), client_words[0])
            if port:
                self.end(server, server_words[0])
        finally:
            server.stop(signal.SIGKILL)
        return output

    def open_close(self, count):
        """us of one connection after the other."""
        return self.alone(r"([\d.]+) us", "open_close", self.server_at, str(count))

    @failing_as_others()
    def alone(self, pattern, name, *words, times=1):
        """What a program prints that was brought along and needs no other."""
        program = self.computer.running().start([*self.wrap, f"/verbena/{name}", *words])
        return measuring.Figure(times * measuring.found(name, 0, self.end(program, name), pattern))

    def start(self, processor, words):
        return self.computer.running().start([*self.wrap, "taskset", "-c", str(processor), *words])

    def end(self, program, name):
        self.wait_for(program, lambda: program.code() is not None)
        program.held_open()  # all that it said is here
        if program.code() != 0:
            raise measuring.Failed(f"{name} in the guest: {measuring.last_line(program.text())}")
        return program.text()

    def wait_for(self, program, condition):
        deadline = time.monotonic() + measuring.SECONDS
        while not condition():
            if time.monotonic() > deadline:
                program.stop(signal.SIGKILL)
                raise measuring.Failed(f"{' '.join(program.argv)} in the guest takes more than {measuring.SECONDS} s")
            time.sleep(LOOKS_EVERY)


class BareInGuest(InGuest):
    """The stock programs themselves (bare_provider.cpp), as in measuring.Bare."""

    RING = "/run/bare-ring"

    def both(self, server_words, client_words, port):
        try:
            output = super().both(server_words, client_words, port)
        finally:
            self.computer.running().run("rm", "-f", self.RING)
        return measuring.said_bare(output)

    def start(self, processor, words):
        return super().start(processor, [*measuring.bare_words("/verbena/libbare_provider.so", self.RING, processor), *words])


def make_lines(build, yardsticks, made):
    """made: an ExitStack, which ends the guest."""
    computer = Machine(build, yardsticks, made)
    reason = machine.missing(str(build))
    rxe = InGuest(computer, [], machine.addresses(2)[4], "rxe0", 1)
    lines = []

    def add(name, group, unit, wanted, ours, theirs):
        lines.append(Line(name, group, unit, "rxe", wanted, unit != "us", lambda: measuring.Figure(ours().value),
                          lambda: theirs().value, reason))

    def add_verbena(name, unit, wanted, measure, verbena):
        group = "guest" if unit == "GB/s" else "guest, small"
        add(f"VM: {name}", group, unit, wanted, lambda: measure(verbena), lambda: measure(rxe))

    def add_bare(name, unit, ours, measure):
        add(f"VM, bare: {name}", "guest, bare", unit, None, ours, lambda: measure(rxe))

    def add_alone(name, unit, pattern, words, measure, times=1):
        add_bare(name, unit, lambda: rxe.alone(pattern, *words.split(), times=times), measure)

    for link, where, wanted, wanted_latency in WAYS:
        wrap = ["ip", "netns", "exec", "measured", "env", f"LD_LIBRARY_PATH={BUILD}/lib", f"VERBENA_LINK={link}"]
        place = (computer, wrap, ADDRESS, "verbena_eth9", 0)
        verbena = InGuest(*place)
        for program in ("ib_write_bw", "ib_read_bw", "ib_send_bw"):
            add_verbena(f"{program} 64 KiB{where}", "GB/s", wanted, lambda pair, p=program: bandwidth(pair, p), verbena)
        for program in ("ib_send_lat", "ib_write_lat"):
            add_verbena(f"{program} 8 B{where}", "us", wanted_latency, lambda pair, p=program: pair.latency(p, *SMALL), verbena)
        if link == "wire":
            add_verbena(f"ib_send_bw 8 B{where}", "M/s", None, lambda pair: pair.rate("ib_send_bw", 20000), verbena)
            add_verbena(f"ib_send_bw 8 B -l 16{where}", "M/s", 5, lists, verbena)
    add_verbena("cmtime, one connection", "us", 0.5, connection, verbena)
    add_verbena("one thread opening and closing", "us", 0.5, lambda pair: pair.open_close(100), verbena)
    add_bare("ib_send_lat 8 B", "us", lambda: send_latency(BareInGuest(*place)), send_latency)
    datagrams = r"([\d.]+) M datagrams/s"
    add_alone("sendmmsg", "M/s", datagrams, "sendmmsg_rate", lists)
    add_alone("segmentation bursts", "M/s", datagrams, "sendmmsg_rate bursts", lists)
    add_alone("an answer by packets, its calls 8 B", "us", r"([\d.]+) us", "bare_answer 5000", send_latency)
    add_alone("a connection's datagrams", "us", r"([\d.]+) us", "bare_connection 500", lambda pair: pair.open_close(100))
    if yardsticks:
        for line in BARE_LINES:
            add_alone(*line)
        add_alone("20 x pingpong eventfd", "us", ONE_WAY, "pingpong eventfd 0 5000 8", connection, times=20)
    return lines
