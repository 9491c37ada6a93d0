"""A virtual machine with soft-RoCE on a bridge of a network namespace, and a station (see stations.py) inside it."""

import contextlib
import ipaddress
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import tempfile
import time

import cpio
from stations import Station

HERE = os.path.dirname(os.path.realpath(__file__))
NETWORK = {4: ("10.92.0.%d", 24), 6: ("fd92::%d", 64)}
HOST = 1  # the namespace's own address; guest i has i + 1
BOOT_SECONDS = 180
ANSWER_SECONDS = 60
KVM_SECONDS = 15
MEMORY_MB = 2048
BUILT = ("bin/verbena", "bin/verbenad", "lib/libibverbs.so.1", "lib/librdmacm.so.1", "lib/libverbena-view.so",
         "lib/libverbena-interpose.so")


def addresses(number):
    return {family: pattern % number for family, (pattern, _) in NETWORK.items()}


class Unavailable(Exception):
    """This host cannot run the guest; the text says why."""


def built(build):
    return all(os.path.exists(os.path.join(build, path)) for path in BUILT)


def missing(build=None):
    """Why this host cannot run a guest (with that build in it), or nothing."""
    if os.geteuid() != 0:
        return "needs root (network namespaces, debootstrap)"
    for program in ("qemu-system-x86_64", "debootstrap", "ip"):
        if not shutil.which(program):
            return f"{program} is not installed (scripts/install-deps interop)"
    if not os.access("/dev/net/tun", os.W_OK):
        return "/dev/net/tun is not there"
    if build and not built(build):
        return f"{build} is not whole: build first"
    return None


def find_image():
    """The folder of the guest's kernel and disk, which are built when they are not there, or None."""
    done = subprocess.run([os.path.join(HERE, "build-guest")], stdout=subprocess.PIPE, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else None


def acceleration(image):
    """QEMU's options: KVM where it starts a stock kernel (a nested hypervisor's may not, or only interpret it)."""
    noted = os.path.join(image, "acceleration")
    if not os.path.exists(noted):
        works = False
        if os.access("/dev/kvm", os.W_OK):
            with contextlib.suppress(subprocess.TimeoutExpired):
                done = subprocess.run(
                    ["qemu-system-x86_64", "-accel", "kvm", "-cpu", "host", "-m", "512", "-nodefaults", "-display",
                     "none", "-serial", "stdio", "-no-reboot", "-kernel", os.path.join(image, "vmlinuz"), "-append",
                     "console=ttyS0 panic=-1"],
                    stdin=subprocess.DEVNULL, capture_output=True, timeout=KVM_SECONDS, check=False)
                works = b"Kernel panic" in done.stdout  # for want of a root: it came that far
        with open(noted, "w", encoding="ascii") as file:
            file.write("kvm" if works else "tcg")
    with open(noted, encoding="ascii") as file:
        if file.read() == "kvm":
            return ["-accel", "kvm", "-cpu", "host"]
    # Without "erms" the kernel copies eight bytes a step, which the emulator does much faster than single ones. It
    # multiplies without carries bit by bit: checksums by tables are faster.
    return ["-accel", "tcg,thread=multi,tb-size=512", "-cpu", "max,-erms,-la57,-pclmulqdq,-vpclmulqdq"]


def ip(*words):
    done = subprocess.run(["ip", *words], capture_output=True, text=True, check=False)
    if done.returncode:
        raise Unavailable(f"ip {' '.join(words)}: {done.stderr.strip()}")


class Network:
    """A namespace with a bridge, "eth0", on which the guests' interfaces sit beside the namespace's own address."""

    def __init__(self, mtu, name=None):
        """name: tells it from the others of one process that have its MTU."""
        self.mtu = mtu
        self.name = f"verbena-interop-{os.getpid()}-{name or mtu}"

    def __enter__(self):
        ip("netns", "add", self.name)
        try:
            ip("-n", self.name, "link", "set", "lo", "up")
            ip("-n", self.name, "link", "add", "eth0", "mtu", str(self.mtu), "type", "bridge", "mcast_snooping", "0",
               "forward_delay", "0")
            ip("-n", self.name, "link", "set", "eth0", "up")
            for family, address in addresses(HOST).items():
                nodad = ["nodad"] if family == 6 else []
                ip("-n", self.name, "address", "add", f"{address}/{NETWORK[family][1]}", "dev", "eth0", *nodad)
        except Unavailable:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        subprocess.run(["ip", "netns", "delete", self.name], stderr=subprocess.DEVNULL, check=False)

    def station(self, launcher):
        return Station("Verbena", ["ip", "netns", "exec", self.name, *launcher], addresses(HOST))


class Guest(Station):
    """A running virtual machine. Programs that it starts are watched through its control channel."""

    def __init__(self, network, number, image, acceleration, console=None, programs=(), build=None):
        super().__init__(f"rxe in guest {number}", [], addresses(number + 1))
        self.directory = tempfile.TemporaryDirectory(prefix="verbena-guest-")
        self.network = network
        self.console = console or os.path.join(self.directory.name, "console")
        self.pending = b""
        self.requests = 0
        self.socket = None
        initrd = os.path.join(self.directory.name, "initrd")
        with open(initrd, "wb") as out:
            subprocess.run(["cat", os.path.join(image, "guest.cpio")], stdout=out, check=True)
            out.seek(0, os.SEEK_END)
            overlay(out, programs, build)
        tap = f"tap{number}"
        ip("netns", "exec", network.name, "ip", "tuntap", "add", "dev", tap, "mode", "tap")
        ip("-n", network.name, "link", "set", tap, "mtu", str(network.mtu), "master", "eth0", "up")
        # An emulated processor's time stamps are the host's, but seem unsynchronized; the clock would be one that QEMU answers.
        clock = ["tsc=reliable"] if "tcg" in acceleration[1] else []
        words = [f"verbena.ip{family}={address}/{NETWORK[family][1]}" for family, address in self.addresses.items()]
        channel = os.path.join(self.directory.name, "channel")
        self.qemu = subprocess.Popen(
            # It ends with us, whatever ends us.
            ["ip", "netns", "exec", network.name, "setpriv", "--pdeathsig", "KILL",
             "qemu-system-x86_64", *acceleration, "-smp", "2", "-m", str(MEMORY_MB), "-nodefaults", "-display", "none", "-no-reboot",
             "-kernel", os.path.join(image, "vmlinuz"), "-initrd", initrd,
             "-append", " ".join(["console=ttyS0 quiet panic=-1 mitigations=off rdinit=/verbena/init net.ifnames=0",
                                  f"verbena.mtu={network.mtu}", *clock, *words]),
             "-serial", f"file:{self.console}",
             "-netdev", f"tap,id=net,ifname={tap},script=no,downscript=no",
             "-device", f"virtio-net-pci,netdev=net,mac=52:54:00:92:00:{number + 1:02x},host_mtu={network.mtu}",
             "-object", "rng-random,filename=/dev/urandom,id=random", "-device", "virtio-rng-pci,rng=random",
             "-device", "virtio-serial-pci", "-chardev", f"socket,id=channel,path={channel},server=on,wait=off",
             "-device", "virtserialport,chardev=channel,name=verbena"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True)
        try:
            self._connect(channel)
        except Unavailable:
            self.end()
            raise

    def start(self, argv, cwd=None):
        return GuestProgram(self, argv)

    def run(self, *argv):
        """Runs a command to its end; returns (status, output)."""
        program = self.start(list(argv))
        while program.code() is None:
            time.sleep(0.05)
        return program.code(), program.text()

    def request(self, **words):
        """One request to the agent, and its answer."""
        self.requests += 1
        self.socket.sendall(json.dumps({**words, "request": self.requests}).encode() + b"\n")
        answer = {}
        while answer.get("request") != self.requests:  # what was asked at the start may be answered late
            answer = json.loads(self._line(ANSWER_SECONDS))
        if answer.get("absent"):
            raise FileNotFoundError(f"{self.name}: {answer['error']}")
        if "error" in answer:
            raise RuntimeError(f"{self.name}: {answer['error']}")
        return answer["result"]

    def end(self):
        """Ends the machine (its disk is memory: nothing is lost) and takes its interface away."""
        if self.socket:
            self.socket.close()
        self.qemu.kill()
        self.qemu.wait()
        self.qemu.stderr.close()
        self.directory.cleanup()

    def _connect(self, path):
        deadline = time.monotonic() + BOOT_SECONDS
        while True:
            if self.qemu.poll() is not None:
                raise Unavailable(f"qemu: {self.qemu.stderr.read().decode().strip()}")
            channel = socket.socket(socket.AF_UNIX)
            try:
                channel.connect(path)
                break
            except OSError:
                channel.close()
                time.sleep(0.05)
        self.socket = channel
        # What is written before the agent opens its end may be lost: ask until it answers.
        while time.monotonic() < deadline:
            channel.sendall(b'{"do": "start", "argv": ["true"]}\n')
            if select.select([channel], [], [], 1)[0] or self.qemu.poll() is not None:
                self._line(ANSWER_SECONDS)
                return
        raise Unavailable(f"the guest did not come up in {BOOT_SECONDS} s:\n{self._console_end()}")

    def _console_end(self):
        with open(self.console, encoding="utf-8", errors="replace") as file:
            return "".join(file.readlines()[-15:])

    def _line(self, seconds):
        deadline = time.monotonic() + seconds
        while b"\n" not in self.pending:
            if not select.select([self.socket], [], [], max(deadline - time.monotonic(), 0))[0]:
                raise Unavailable(f"{self.name} no longer answers:\n{self._console_end()}")
            data = self.socket.recv(65536)
            if not data:
                raise Unavailable(f"{self.name} has ended:\n{self._console_end()}")
            self.pending += data
        line, _, self.pending = self.pending.partition(b"\n")
        return line


class GuestProgram:
    """A program in a guest, with the interface of programs.Program."""

    def __init__(self, guest, argv):
        self.guest = guest
        self.argv = argv
        self.pid = guest.request(do="start", argv=argv)
        self.output = ""
        self.status = None

    def _refresh(self):
        self.status, more = self.guest.request(do="status", pid=self.pid, offset=len(self.output))
        self.output += more

    def code(self):
        if self.status is None:
            self._refresh()
        return self.status

    def text(self):
        self._refresh()
        return self.output

    def ready(self, port=None):
        return self.guest.request(do="ready", pid=self.pid, port=port)

    def held_open(self):
        return self.guest.request(do="held_open", pid=self.pid)

    def stop(self, number=signal.SIGTERM):
        return self.guest.request(do="stop", pid=self.pid, number=int(number))


def overlay(out, programs, build):
    """Appends today's init and agent to the initial RAM disk, the runner of the clients' cases, the programs, and what
    programs need of a build, below /verbena/build."""
    archive = cpio.Archive(out)
    archive.add("verbena", 0o40755)
    for directory in (os.path.join(HERE, "guest"), os.path.join(os.path.dirname(HERE), "clients")):
        for entry in sorted(os.scandir(directory), key=lambda entry: entry.name):
            if entry.is_file():
                add_file(archive, entry.path)
    for program in programs:
        add_file(archive, program)
    if build and built(build):
        for directory in ("build", "build/bin", "build/lib"):
            archive.add("verbena/" + directory, 0o40755)
        for path in BUILT:
            add_file(archive, os.path.join(build, path), "build/" + path)
    archive.close()


def add_file(archive, path, name=None):
    with open(path, "rb") as file:
        archive.add("verbena/" + (name or os.path.basename(path)), 0o100755, file.read())
