"""The same losses as in loss.py, and by the same rule, with rxe there: between two of the virtual machines of tests/interop.
They hang on one bridge, which drops what it forwards of IP. Each has one processor, which belongs to one of this host's, and
nothing is segmented or merged in them. Verbena by packets, rxe and a TCP stream (tcp_stream.py) take turns: the kernel has
the port while rxe is loaded."""

import pathlib
import re
import shutil
import subprocess
import time

import guest as machine
import guest_lines
import loss
import measuring
from line import Line

# Perftest's -u for both, 4.096 us x 2^10: the longest that is one tick of the guests' kernel to rxe, which is its best. With
# 11, two ticks, it kept half as much of 5 %, and with perftest's 14 a tenth, and a quarter of 1 %.
TIMEOUT = "10"
COUNTS = {0: 20, 0.1: 20, 1: 20, 5: 5}  # messages of 1 MiB
TCP_SECONDS = 3
DEVICES = {"Verbena": ("verbena_eth0", 0), "rxe": ("rxe0", 1)}
# The daemon leaves soon after its last program, and with it the port.
SETTINGS = {"Verbena": ("env", f"LD_LIBRARY_PATH={guest_lines.BUILD}/lib", "VERBENA_LINK=wire", "VERBENA_DISABLE=gso",
                        "VERBENA_IDLE_MS=100")}
LOADING = {"Verbena": ("rdma link delete rxe0", "modprobe -r rdma_rxe"),
           "rxe": ("modprobe rdma_rxe", "rdma link add rxe0 type rxe netdev eth0")}
PATIENCE = 10  # seconds for the daemon to leave
STREAM = pathlib.Path(__file__).with_name("tcp_stream.py")


class Machines(guest_lines.Booting):
    """Two; whoever is to be measured has the port."""

    def __init__(self, build, made):
        self.build, self.made = build, made
        self.network, self.loaded = None, "rxe"

    def running_for(self, who):
        guests = self.running()
        if who in LOADING and who != self.loaded:
            try:
                for guest in guests:
                    for command in LOADING[who]:
                        obey(guest, *command.split(), patience=PATIENCE)
            except machine.Unavailable as reason:
                self.failed = str(reason)
                raise
            self.loaded = who
        return guests

    def boot(self, image):
        self.network = self.made.enter_context(machine.Network(1500, "loss"))
        guests = []
        for processor in (measuring.PASSIVE, measuring.ACTIVE):
            guest = machine.Guest(self.network, len(guests) + 1, image, machine.acceleration(image), programs=[str(STREAM)],
                                  build=str(self.build))
            self.made.callback(guest.end)
            obey(guest, *loss.UNMERGED)
            obey(guest, "sh", "-c", "echo 0 >/sys/devices/system/cpu/cpu1/online")
            subprocess.run(["taskset", "-acp", str(processor), str(guest.qemu.pid)], check=True, stdout=subprocess.DEVNULL)
            guests.append(guest)
        return guests

    def lose(self, percent):
        """From now on."""
        loss.inside(self.network, "nft", "add table bridge loss; delete table bridge loss; add table bridge loss; "
                    "add chain bridge loss wire { type filter hook forward priority 0; }; "
                    f"add rule bridge loss wire ether type ip {loss.drops(percent)}")

    def lost(self):
        return int(re.search(r"packets (\d+)", loss.inside(self.network, "nft", "list", "table", "bridge", "loss"))[1])


def obey(guest, *words, patience=0):
    deadline = time.monotonic() + patience
    while True:
        status, text = guest.run(*words)
        if status == 0:
            return
        if time.monotonic() > deadline:
            raise machine.Unavailable(f"in the guest: {' '.join(words)}: {text.strip()}")
        time.sleep(0.3)


class Between(guest_lines.InGuest):
    """Pairs with the server in the first machine and the client in the second."""

    def __init__(self, computers, who):
        super().__init__(computers, SETTINGS.get(who, ()), machine.addresses(2)[4], *DEVICES.get(who, ("", 0)))
        self.who = who

    def start(self, processor, words):
        guest = self.computer.running_for(self.who)[0 if processor == measuring.PASSIVE else 1]
        return guest.start([*self.wrap, *words])

    @guest_lines.failing_as_others()
    def through(self, percent):
        """The bandwidth while so much is lost."""
        self.computer.running_for(self.who)
        self.computer.lose(percent)
        figure = self.measured(percent)
        if percent and not self.computer.lost():
            raise measuring.Failed("nothing was lost on the bridge")
        return measuring.Figure(figure)

    def measured(self, percent):
        """Again, when rxe ends a connection in error, as it does now and then when it sends again; nobody else may."""
        for left in range(measuring.ATTEMPTS if self.who == "rxe" else 1, 0, -1):
            try:
                return self.measure(percent)
            except measuring.Failed:
                if left == 1:
                    raise

    def measure(self, percent):
        if self.who in DEVICES:
            return self.bandwidth("ib_write_bw", 1048576, COUNTS[percent], "-u", TIMEOUT).value
        words = [f"/verbena/{STREAM.name}", str(measuring.PORT)]
        output = self.both(words, [*words, self.server_at, str(TCP_SECONDS)], measuring.PORT)
        return measuring.found(STREAM.name, 0, output, r"([\d.]+) GB/s")


def missing(build):
    """Why it cannot be measured here, or None."""
    for tool in ("nft", "taskset"):
        if not shutil.which(tool):
            return f"{tool} is not installed"
    return machine.missing(str(build))


def make_lines(build, made):
    """made: an ExitStack, which ends the machines."""
    computers = Machines(build, made)
    lines = []
    for who, name in (("Verbena", "ib_write_bw 1 MiB"), ("rxe", "rxe, ib_write_bw 1 MiB"), ("TCP", "one TCP stream")):
        pair = Between(computers, who)
        for percent in loss.PERCENT:
            lines.append(Line(f"VM: {name}, {percent} % lost", "loss", "GB/s", "without loss", None, True,
                              lambda p=percent, q=pair: q.through(p), lambda q=pair: q.through(0).value, missing(build)))
    return lines
