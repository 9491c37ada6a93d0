"""What programs of ours measure, where no stock one does: many queue pairs, a plain client, a target that computes, a pair
that does nothing, one connection after the other. Each makes both of its ends and puts each on a processor."""

import measuring
from line import ONE_WAY, Line

PLAIN_SENDS = 20000
US = r"([\d.]+) us"
WAKE_UP = ("pingpong", "eventfd", "0", "30000", "8")


def make_lines(build, fabric, yardsticks):
    return (many(build, fabric) + connecting(build, fabric, yardsticks) + plain(build, fabric) + by_epoll(build, fabric) +
            targets(build, fabric, yardsticks) + idle(build, fabric))


def without_process_vm(build, fabric, settings=()):
    """On one host, where the kernel forbids process_vm_*. The daemon starts there, too, so it is another one."""
    filtered = (str(build / "tests/kernels/without"), "process_vm")
    name = fabric["VERBENA_FABRIC"] + "-without"
    return measuring.Perftest(build, {"VERBENA_FABRIC": name, "VERBENA_LINK": "local", **dict(settings)}, wrap=(filtered, filtered))


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


def plain(build, fabric):
    """An ordinary user's program, everything by default, beside perftest."""
    lines = []
    program = build / "bench/plain_client"
    for link, where in (("local", ""), ("wire", ", by packets")):
        pair = measuring.Perftest(build, fabric | {"VERBENA_LINK": link})
        lines.append(Line(f"plain client, SEND 8 B{where}", "plain", "us", "ib_send_lat", None, False,
                          lambda p=pair: p.own(program, "latency", "50000", pattern=US),
                          lambda p=pair: p.latency("ib_send_lat", "-s", "8", "-n", "20000").value))
        lines.append(Line(f"plain client, SEND 64 KiB{where}", "plain", "GB/s", "ib_send_bw", None, True,
                          lambda p=pair: p.own(program, "bandwidth", str(PLAIN_SENDS), pattern=r"([\d.]+) GB/s",
                                               gigabytes=PLAIN_SENDS * 65536 / measuring.GIGABYTE),
                          lambda p=pair: p.bandwidth("ib_send_bw", 65536, PLAIN_SENDS).value))
    return lines


def by_epoll(build, fabric):
    """Two servers' way of waiting, a round trip, beside the same over TCP."""
    program = build / "bench/by_epoll"
    return [Line(f"SEND 64 B and back, by epoll{where}", "sleeping", "us", "TCP by epoll", 1, False,
                 lambda p=measuring.Perftest(build, fabric | {"VERBENA_LINK": link}): p.own(program, "verbs", pattern=US),
                 lambda: measuring.printed([str(program), "tcp"], US))
            for link, where in (("local", ""), ("wire", ", by packets"))]


def targets(build, fabric, yardsticks):
    """A target that computes and never calls, where its processor has to serve: by packets, and through rings. And one that
    sleeps, and so does whoever serves it: within two round trips of an eventfd, which are four ways."""
    lines = []
    program = build / "bench/computing_target"

    def add_bandwidth(pair, where, kind):
        lines.append(Line(f"{kind.upper()} 64 KiB, target computes, {where}", "target", "GB/s", "target polls", 0.5, True,
                          lambda: pair.own(program, kind, "computes", pattern=r"([\d.]+) GB/s"),
                          lambda: pair.own(program, kind, "polls", pattern=r"([\d.]+) GB/s").value))

    def add(pair, where, kind):
        lines.append(Line(f"first {kind.upper()}, target computes, {where}", "target", "ms", "", 3, False,
                          lambda: pair.own(program, kind, "computes", pattern=r"first ([\d.]+) ms"), None))
        add_bandwidth(pair, where, kind)

    wire = fabric | {"VERBENA_LINK": "wire"}
    for pair, where in ((measuring.Perftest(build, wire), "by packets"), (without_process_vm(build, fabric), "no process_vm")):
        for kind in ("read", "write"):
            add(pair, where, kind)
    # As for a user who may not take precedence (RLIMIT_NICE).
    fair = {"VERBENA_DISABLE": "precedence"}
    for pair, where in ((measuring.Perftest(build, wire | fair), "by packets"),
                        (without_process_vm(build, fabric, fair), "no process_vm")):
        add_bandwidth(pair, f"{where}, ordinary user", "read")
    if yardsticks:
        local = measuring.Perftest(build, fabric | {"VERBENA_LINK": "local"})
        lines.append(Line("atomic 8 B, target sleeps", "target", "ms", "4 x pingpong eventfd", 1, False,
                          lambda: local.own(program, "atomic", "sleeps", pattern=r"first ([\d.]+) ms"),
                          lambda: 4e-3 * measuring.yardstick(yardsticks, *WAKE_UP, pattern=ONE_WAY)))
        lines.append(Line("who sleeps is woken and answers, bare", "target", "ms", "4 x pingpong eventfd", None, False,
                          lambda: local.own(build / "bench/bare_wake", pattern=r"([\d.]+) ms"),
                          lambda: 4e-3 * measuring.yardstick(yardsticks, *WAKE_UP, pattern=ONE_WAY)))
    return lines


def idle(build, fabric):
    return [Line(f"connected and idle for 10 s{where}", "idle", "context switches", "", 0, False,
                 lambda p=measuring.Perftest(build, fabric | {"VERBENA_LINK": link}): p.own(
                     build / "bench/idle_pair", "10", pattern=r"(\d+) context switches"), None)
            for link, where in (("local", ""), ("wire", ", by packets"))]
