"""What stock programs measure on this host, against what, and the ratio that is wanted; all lines together."""

import contextlib
import os
import shutil

import guest_lines
import guest_loss
import loss
import measuring
import own_lines
import places
import ucx
from line import BANDWIDTHS, ONE_WAY, Line


@contextlib.contextmanager
def make_lines(build, yardsticks):
    """Yields all lines; the namespaces that some need exist until the end."""
    fabric = {"VERBENA_FABRIC": f"bench-{os.getpid()}"}
    with contextlib.ExitStack() as made:
        found = same_host(build, fabric, yardsticks) + own_lines.make_lines(build, fabric, yardsticks)
        for mtu, wanted, wanted_read in ((9000, 0.9, 0.75), (1500, 0.75, 0.65)):
            try:
                ends = made.enter_context(places.namespaces(f"bench-{mtu}", [], mtu))
                found += namespaces(build, fabric, yardsticks, mtu, ends, wanted, wanted_read)
                if mtu == 1500:
                    lossy = made.enter_context(places.namespaces("bench-loss", [], mtu))
                    found += with_losses(build, lossy)
            except places.Unavailable as reason:
                found.append(Line(f"namespaces, MTU {mtu}", "wire", "", "", None, True, None, None, str(reason)))
        yield found + guest_lines.make_lines(build, yardsticks, made) + guest_loss.make_lines(build, made)


def same_host(build, fabric, yardsticks):
    local = measuring.Perftest(build, fabric | {"VERBENA_LINK": "local"})
    lines = []

    def add(name, group, unit, against, wanted, ours, pattern, *words, times=1.0):
        theirs = (lambda: times * measuring.yardstick(yardsticks, *words, pattern=pattern)) if yardsticks else None
        lines.append(Line(name, group, unit, against, wanted, unit != "us", ours, theirs))

    polling = ("pingpong", "shm", "1", "300000", "8")
    add("ib_send_lat 8 B", "latency", "us", "pingpong shm", 2, lambda: local.latency("ib_send_lat", "-s", "8", "-n", "50000"),
        ONE_WAY, *polling)
    add("ib_write_lat 8 B", "latency", "us", "vm lat", 1.3, lambda: local.latency("ib_write_lat", "-s", "8", "-n", "50000"),
        r"one-way ([\d.]+) us", "vm", "lat")
    add("ib_read_lat 8 B", "latency", "us", "vm read", 1.3, lambda: local.latency("ib_read_lat", "-s", "8", "-n", "50000"),
        r": ([\d.]+) us", "vm", "read")
    add("ib_atomic_lat 8 B", "latency", "us", "2 x pingpong shm", 3, lambda: local.latency("ib_atomic_lat", "-n", "20000"),
        ONE_WAY, *polling, times=2)
    add("ib_send_lat -e 8 B", "sleeping", "us", "pingpong eventfd", 1.5,
        lambda: local.latency("ib_send_lat", "-s", "8", "-n", "10000", "-e"), ONE_WAY, "pingpong", "eventfd", "0", "30000", "8")
    for place, more, group, wanted in ((local, "", "bandwidth", 0.9),
                                       (own_lines.without_process_vm(build, fabric), ", no process_vm", "rings", None)):
        for program, size, label, iterations in BANDWIDTHS:
            call = "readv" if program == "ib_read_bw" else "writev"
            add(f"{program} {label}{more}", group, "GB/s", "vm bw", wanted,
                lambda w=place, p=program, s=size, n=iterations: w.bandwidth(p, s, n),
                rf"{call} \d+ B: ([\d.]+) GB/s", "vm", "bw", str(size))
    for words, label, posts in (((), "", "1"), (("-l", "16"), " -l 16", "16")):
        add(f"ib_write_bw 8 B{label}", "rate", "M/s", f"vm rate {posts}", 0.9,
            lambda w=words: local.rate("ib_write_bw", 400000, *w), r"([\d.]+) M writes/s", "vm", "rate", posts)
        add(f"ib_send_bw 8 B{label}", "rate", "M/s", "ring_rate 0", None,
            lambda w=words: local.rate("ib_send_bw", 400000, *w), r"([\d.]+) M msg/s", "ring_rate", "0")
    return (lines + against_bare(local, measuring.Bare(build, fabric)) + against_copied_ring(build, fabric) +
            against_ucx(local))


def against_bare(local, bare):
    """The same programs over nothing at all: what is theirs is in both."""
    lines = [Line("ib_send_lat 8 B, bare", "bare", "us", "bare ring", None, False,
                  lambda: local.latency("ib_send_lat", "-s", "8", "-n", "50000"),
                  lambda: bare.latency("ib_send_lat", "-s", "8", "-n", "50000").value)]
    for program, words, label, against in (("ib_write_bw", (), "", "bare pwrite"), ("ib_send_bw", (), "", "bare ring"),
                                           ("ib_send_bw", ("-l", "16"), " -l 16", "bare ring")):
        lines.append(Line(f"{program} 8 B{label}, bare", "bare", "M/s", against, None, True,
                          lambda p=program, w=words: local.rate(p, 400000, *w),
                          lambda p=program, w=words: bare.rate(p, 400000, *w).value))
    return lines + [Line(f"{program} {label}, bare", "bare", "GB/s", "bare readv", None, True,
                         lambda p=program, s=size, n=iterations: local.bandwidth(p, s, n),
                         lambda p=program, s=size, n=iterations: bare.bandwidth(p, s, n).value)
                    for program, size, label, iterations in BANDWIDTHS if program == "ib_send_bw"]


def against_copied_ring(build, fabric):
    """What is copied through the ring, beside two bare processes that do so."""
    copied = measuring.Perftest(build, fabric | {"VERBENA_LINK": "local", "VERBENA_DISABLE": "fetch,place"})
    return [Line(f"ib_send_bw {label}, copied, {how}", "bare", "GB/s", "bare ring", None, True,
                 lambda s=size, n=iterations: copied.bandwidth("ib_send_bw", s, n),
                 lambda s=size, w=stores: measuring.printed([str(build / "bench/copied_ring"), w, str(s)], r"([\d.]+) GB/s"))
            for program, size, label, iterations in BANDWIDTHS if program == "ib_send_bw"
            for stores, how in (("streamed", "beside past the cache"), ("plain", "beside plain stores"))]


def against_ucx(local):
    """The same programs beside what MPI uses on one host."""
    lines = []

    def add(name, group, unit, ours, theirs):
        lines.append(Line(name, group, unit, "UCX shm", 1.0, unit != "us", ours, theirs, ucx.missing()))

    add("ib_send_lat 8 B, UCX", "latency", "us", lambda: local.latency("ib_send_lat", "-s", "8", "-n", "50000"),
        lambda: ucx.latency(8))
    for program, size, label, iterations in BANDWIDTHS:
        add(f"{program} {label}, UCX", "bandwidth", "GB/s", lambda p=program, s=size, n=iterations: local.bandwidth(p, s, n),
            lambda s=size, n=iterations: ucx.bandwidth(s, n))
    for words, label in (((), ""), (("-l", "16"), " -l 16")):
        add(f"ib_send_bw 8 B{label}, UCX", "rate", "M/s", lambda w=words: local.rate("ib_send_bw", 400000, *w),
            lambda: ucx.rate(8))
    return lines


def with_losses(build, ends):
    """Both against what they have without losses, in the same round."""
    addresses = [end.addresses[4] for end in ends]
    wraps = [["ip", "netns", "exec", end.name] for end in ends]
    wire = measuring.Perftest(build, {"VERBENA_FABRIC": "", "VERBENA_DISABLE": "gso"}, addresses[0], "verbena_eth0", wraps)
    lines = []
    for percent in loss.PERCENT:
        wanted = 0.25 if percent == 1 else None
        lines.append(Line(f"ib_write_bw 1 MiB, {percent} % lost", "loss", "GB/s", "without loss", wanted, True,
                          lambda p=percent: loss.of_verbena(ends, wire, p), lambda: loss.of_verbena(ends, wire, 0).value,
                          loss.missing()))
        lines.append(Line(f"one TCP stream, {percent} % lost", "loss", "GB/s", "without loss", None, True,
                          lambda p=percent: measuring.Figure(loss.of_tcp(ends, wraps, addresses[0], p)),
                          lambda: loss.of_tcp(ends, wraps, addresses[0], 0), loss.missing()))
    return lines


def namespaces(build, fabric, yardsticks, mtu, ends, wanted, wanted_read):
    server, client = ends
    addresses = [end.addresses[4] for end in ends]
    wrap = ["ip", "netns", "exec"]
    wraps = ([*wrap, server.name], [*wrap, client.name])
    # A namespace is a fabric of its own already; a named one has no place on the wire.
    wire = measuring.Perftest(build, {"VERBENA_FABRIC": ""}, addresses[0], "verbena_eth0", wraps)
    no_tcp = None if shutil.which("iperf3") else "iperf3 is not installed"
    lines = []
    for program, ratio in (("ib_write_bw", wanted), ("ib_send_bw", wanted), ("ib_read_bw", wanted_read)):
        lines.append(Line(f"{program} 1 MiB, MTU {mtu}", "wire", "GB/s", "one TCP stream", ratio, True,
                          lambda p=program: wire.bandwidth(p, 1048576, 2000),
                          lambda: measuring.tcp_stream(*wraps, addresses[0]), no_tcp))
    if mtu == 1500:
        for program in ("ib_send_bw", "ib_write_bw"):
            for words, label in (((), ""), (("-l", "16"), " -l 16")):
                lines.append(Line(f"{program} 8 B{label}, MTU {mtu}", "packets", "M/s", "sendmmsg", None, True,
                                  lambda p=program, w=words: wire.rate(p, 200000, *w),
                                  lambda: own_lines.datagram_rate(build, server.name, client.name, addresses[0])))
    if mtu == 9000 and yardsticks:
        # The yardstick has both of its processes in one namespace, so over loopback, and so have we.
        near = measuring.Perftest(build, fabric | {"VERBENA_LINK": "wire"})
        lines.append(Line("ib_send_lat -e 8 B by packets", "sleeping", "us", "pingpong udp", 1.3, False,
                          lambda: near.latency("ib_send_lat", "-s", "8", "-n", "10000", "-e"),
                          lambda: measuring.yardstick(yardsticks, "pingpong", "udp", "0", "30000", "8", pattern=ONE_WAY)))
        for program in ("ib_send_lat", "ib_write_lat"):
            lines.append(Line(f"{program} 8 B by packets", "packets", "us", "udp_acked", 1.3, False,
                              lambda p=program: near.latency(p, "-s", "8", "-n", "20000"),
                              lambda: measuring.yardstick(yardsticks, "udp_acked", "50000", pattern=r"one-way ([\d.]+) us")))
    return lines
