"""What programs of ours measure, where no stock one does: many queue pairs, a plain client, a target that computes, a pair
that does nothing, one connection after the other. Each makes both of its ends and puts each on a processor."""

import measuring
from line import ONE_WAY, Line

PLAIN_SENDS = 20000
US = r"([\d.]+) us"
WAKE_UP = ("pingpong", "eventfd", "0", "30000", "8")


def make_lines(build, fabric, yardsticks):
    return (many(build, fabric) + connecting(build, fabric, yardsticks) + plain(build, fabric, yardsticks) +
            targets(build, fabric) + idle(build, fabric))


def without_process_vm(build, fabric):
    """On one host, where the kernel forbids process_vm_*. The daemon starts there, too, so it is another one."""
    filtered = (str(build / "tests/kernels/without"), "process_vm")
    name = fabric["VERBENA_FABRIC"] + "-without"
    return measuring.Perftest(build, {"VERBENA_FABRIC": name, "VERBENA_LINK": "local"}, wrap=(filtered, filtered))


def datagram_rate(build, server, client, address):
    """Millions of datagrams a second between two namespaces, sixteen a call."""
    return measuring.printed([str(build / "bench/sendmmsg_rate"), server, client, address], r"([\d.]+) M datagrams/s")


def many(build, fabric):
    """The same load over fewer or more queue pairs than sixteen."""
    lines = []

    def rate(pair, count, kind):
        return pair.own(build / "tests/scale/shared_load", str(count), kind, pattern=r"([\d.]+) M messages/s")

    for link, where in (("local", ""), ("wire", " by packets")):
        pair = measuring.Perftest(build, fabric | {"VERBENA_LINK": link})
        for kind in ("send", "write"):
            for count, label, wanted in ((1, "1 QP", None), (256, "256 QPs", None), (4096, "4 096 QPs", 0.7)):
                lines.append(Line(f"{kind.upper()} 64 B, {label}{where}", "many", "M/s", "16 QPs", wanted, True,
                                  lambda p=pair, c=count, k=kind: rate(p, c, k), lambda p=pair, k=kind: rate(p, 16, k).value))
    return lines


def connecting(build, fabric, yardsticks):
    """One connection from its id to its end: of many at once, and of one after the other."""
    if not yardsticks:
        return []
    pair = measuring.Perftest(build, fabric)
    lines = []
    for name, wanted, ours in (("cmtime, one connection", 1, lambda: pair.connection(1000)),
                               ("one thread opening and closing", 1, lambda: pair.own(build / "bench/open_close", pattern=US)),
                               ("a connection's datagrams, bare", None, lambda: pair.own(build / "bench/bare_connection", pattern=US))):
        lines.append(Line(name, "connecting", "us", "20 x pingpong eventfd", wanted, False, ours,
                          lambda: 20 * measuring.yardstick(yardsticks, *WAKE_UP, pattern=ONE_WAY)))
    return lines


def plain(build, fabric, yardsticks):
    """An ordinary user's program beside perftest: everything by default."""
    if not yardsticks:
        return []
    local = measuring.Perftest(build, fabric | {"VERBENA_LINK": "local"})
    program = build / "bench/plain_client"
    return [Line("plain client, SEND 8 B", "latency", "us", "pingpong shm", None, False,
                 lambda: local.own(program, "latency", "50000", pattern=r"([\d.]+) us"),
                 lambda: measuring.yardstick(yardsticks, "pingpong", "shm", "1", "300000", "8", pattern=ONE_WAY)),
            Line("plain client, SEND 64 KiB", "bandwidth", "GB/s", "vm bw", None, True,
                 lambda: local.own(program, "bandwidth", str(PLAIN_SENDS), pattern=r"([\d.]+) GB/s",
                                   gigabytes=PLAIN_SENDS * 65536 / measuring.GIGABYTE),
                 lambda: measuring.yardstick(yardsticks, "vm", "bw", "65536", pattern=r"writev \d+ B: ([\d.]+) GB/s"))]


def targets(build, fabric):
    """A target that computes and never calls, where its processor has to serve: by packets, and through rings."""
    lines = []

    def measured(place, kind, target, pattern):
        return place.own(build / "bench/computing_target", kind, target, pattern=pattern)

    for place, where in ((measuring.Perftest(build, fabric | {"VERBENA_LINK": "wire"}), "by packets"),
                         (without_process_vm(build, fabric), "no process_vm")):
        for kind in ("read", "write"):
            lines.append(Line(f"first {kind.upper()}, target computes, {where}", "target", "ms", "", 3, False,
                              lambda p=place, k=kind: measured(p, k, "computes", r"first ([\d.]+) ms"), None))
            lines.append(Line(f"{kind.upper()} 64 KiB, target computes, {where}", "target", "GB/s", "target polls", 0.5, True,
                              lambda p=place, k=kind: measured(p, k, "computes", r"([\d.]+) GB/s"),
                              lambda p=place, k=kind: measured(p, k, "polls", r"([\d.]+) GB/s").value))
    return lines


def idle(build, fabric):
    return [Line(f"connected and idle for 10 s{where}", "idle", "context switches", "", 0, False,
                 lambda p=measuring.Perftest(build, fabric | {"VERBENA_LINK": link}): p.own(
                     build / "bench/idle_pair", "10", pattern=r"(\d+) context switches"), None)
            for link, where in (("local", ""), ("wire", ", by packets"))]
