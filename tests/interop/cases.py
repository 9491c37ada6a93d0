"""What runs between Verbena and Linux soft-RoCE: stock programs, with sizes that an emulated guest does in a second.

Every case runs in both directions, over IPv4 and over IPv6, at two MTUs; LOSS is for a network that drops one packet in
twenty: the same programs with smaller counts, and of the unreliable services those that end all the same. What Linux rxe itself cannot do is listed, RXE_CANNOT, and reported as not run,
so that nobody takes a missing line for a passed one.
"""

import dataclasses
import os
import select

from pairs import Case

ENDED = ()  # the server runs until somebody ends it
DONE = "return status 0"
HERE = os.path.dirname(os.path.realpath(__file__))


def exchanged(program, options, seconds, expect="#bytes", attempts=1, name=""):
    """A program whose two ends tell each other over TCP what they need."""
    line = f"{program} {options}"
    return Case(name or program, line, line + " {side}", ready="tcp", expect=expect, seconds=seconds, attempts=attempts)


def perftest(program, options, seconds, name=""):
    return exchanged(program, f"{options} -F -p {{port}} -d {{dev}} -x {{index}}", seconds, name=name)


def cases(pings, messages, size, exchanges, seconds, attempts=1):
    """attempts: for programs that agree with nobody on the end. Whoever is done first destroys its queue pair;
    if its last acknowledgement was lost the other can never have it. Likewise the identifiers of rdma_cm: with
    them a lost DREQ (rping) or SIDR_REP (udaddy) is not sent again, by a kernel neither."""
    ping = f"-a {{addr}} -p {{port}} -C {pings} -V -S {size}"
    yield Case("rping", f"rping -s {ping}", f"rping -c {ping}", seconds=seconds, attempts=attempts)
    yield Case("ucmatose", f"ucmatose -b {{any}} -p {{port}} -C {messages}", f"ucmatose -s {{addr}} -p {{port}} -C {messages}",
               expect=DONE, seconds=seconds)
    yield exchanged("ibv_rc_pingpong", f"{{gid}} -p {{port}} -c -s {size} -n {exchanges}", min(seconds, 40), "iters in",
                    attempts)
    for program in ("ib_write_bw", "ib_read_bw", "ib_send_bw"):
        yield perftest(program, f"-n {messages} -s 65536", seconds)
    yield perftest("ib_atomic_bw", f"-n {messages}", seconds)
    yield exchanged("ibv_srq_pingpong", f"{{gid}} -p {{port}} -c -q 4 -s {size} -n {exchanges}", min(seconds, 40), "iters in",
                    attempts)
    # SIDR makes up for what is lost, the datagrams themselves nobody: here none are sent.
    yield Case("udaddy-no-data", "udaddy -b {addr} -C 0", "udaddy -s {addr} -C 0", expect=DONE, expect_server=DONE,
               seconds=seconds, attempts=attempts)
    yield stream("rstream", f"-T v -I {exchanges} -C 2 -S {size}", seconds)


def stream(name, options, seconds):
    """Servers that do not block in their accept ask over and over: they listen when they have printed their heading."""
    line = f"-p {{port}} {options}"
    return Case(name, f"rstream -b {{addr}} {line}", f"rstream -s {{addr}} {line}", ready="name +bytes", expect="^custom",
                seconds=seconds)


def datagrams(largest):
    """UD, by its GID and by SIDR; largest: bytes of a datagram, the path MTU."""
    for name, options in {"": f"-c -s {largest} -n 200", "-events": "-e -n 200"}.items():
        yield exchanged("ibv_ud_pingpong", f"{{gid}} -p {{port}} {options}", 40, "iters in", name=f"ibv_ud_pingpong{name}")
    for name, options in {"": "", "-5-ids": f"-c 5 -C 50 -S {largest}"}.items():
        yield Case(f"udaddy{name}", f"udaddy -b {{addr}} {options}", f"udaddy -s {{addr}} {options}", expect=DONE,
                   expect_server=DONE, seconds=60)
    yield perftest("ib_send_bw", f"-c UD -n 100 -s {largest}", 60, name="ib_send_bw-ud")
    yield perftest("ib_send_lat", "-c UD -n 100 -s 64", 60, name="ib_send_lat-ud")


def unreliable():
    """UC."""
    yield exchanged("ibv_uc_pingpong", "{gid} -p {port} -c -s 5000 -n 100", 40, "iters in")
    yield perftest("ib_send_lat", "-c UC -n 100 -s 64", 60, name="ib_send_lat-uc")
    yield perftest("ib_send_bw", "-c UC -n 100 -s 4096", 60, name="ib_send_bw-uc")
    yield perftest("ib_write_lat", "-c UC -n 100 -s 5000", 60, name="ib_write_lat-uc")
    yield perftest("ib_write_bw", "-c UC -n 100 -s 4096", 60, name="ib_write_bw-uc")


def unreliable_with_loss():
    """Nobody repeats what is lost: the sender ends all the same, and the receiver by the clock or when it has enough."""
    for service in ("UD", "UC"):
        yield perftest("ib_send_bw", f"-c {service} -D 2 -s 1024", 60, name=f"ib_send_bw-{service.lower()}")
    yield perftest("ib_write_bw", "-c UC -n 100 -s 4096", 60, name="ib_write_bw-uc")
    line = "mckey -b {own} -m {group}"
    yield Case("mckey", f"{line} -C 20", f"{line} -C 200 -s {{own}}", families=(4,), expect=DONE, expect_server=DONE, seconds=60)


def multicast(largest):
    """The sender is the client. mckey starts sending when it has joined: the receiver must have joined before."""
    line = "mckey -b {own} -m {group}"
    for name, options, sender in (("", "", ""), ("-5-ids", f"-c 5 -C 20 -S {largest}", ""), ("-send-only", "", "-o")):
        yield Case(f"mckey{name}", f"{line} {options}", f"{line} {options} -s {sender}", families=(4,), expect=DONE,
                   expect_server=DONE, seconds=60)


def sockets():
    """rsockets: each way in which a stream moves its data; files; the endpoints of rdma_create_ep."""
    for name, options in {"blocking": "-T b -S 100000", "nonblocking": "-T n -S 100000",
                          "resolved": "-T r -S 1000", "1M": "-T v -S 1000000 -C 2"}.items():
        yield stream(f"rstream-{name}", f"-I 10 -C 5 {options}", 60)
    # The server's last message and its end may come together; then rstream's client ends with POLLHUP (16) for status,
    # between two rxe too. All data has arrived by then, says the server.
    yield dataclasses.replace(stream("rstream-async", "-I 10 -C 5 -T a -S 64", 60), client_exit=(0, select.POLLHUP), expect="",
                              expect_server="^custom")
    yield Case("rcopy", "rcopy -p {port}", "rcopy /proc/self/exe {addr}:/tmp/verbena-rcopy -p {port}", families=(4,),
               server_exit=ENDED, expect="^[0-9]+ bytes", seconds=60)
    yield Case("rdma_client", "rdma_server -s {any} -p {port}", "rdma_client -s {addr} -p {port}", expect="rdma_client: end 0",
               expect_server="rdma_server: end 0", seconds=60)
    yield Case("rdma_xclient", "rdma_xserver -p {port} -c r", "rdma_xclient -s {addr} -p {port} -c r", families=(4,),
               expect="rdma_xclient: end 0", expect_server="rdma_xserver: end 0", seconds=60)


def sockets_with_loss():
    yield stream("rstream-nonblocking", "-I 10 -C 2 -T n -S 20000", 120)
    for case in sockets():
        if case.name in ("rcopy", "rdma_client", "rdma_xclient"):
            yield dataclasses.replace(case, seconds=120, attempts=4)


def table():
    """tests/verbs: every way in which a request fails, and how both sides see it; memory windows."""
    line = "verbs_table -d {dev} -x {index} -p {port}"
    return Case("verbs_table", line, line + " {side}", ready="tcp", expect=": 0 of", expect_server=": 0 of", seconds=120)


def daemon():
    """The daemon's death between two connections; and, with Verbena beside soft-RoCE in the guest, who has the port."""
    yield Case("daemon-killed", "rping -s -P -a {addr} -p {port}", f"{HERE}/reconnect {{addr}} {{port}}", server_exit=ENDED,
               places="to rxe", expect="^reconnected in", seconds=60)
    yield Case("port-of-the-kernel", "", "/verbena/build/bin/verbena run -- ibv_devinfo", places="rxe to",
               expect=r"UDP port 4791 is taken by the kernel \(soft-RoCE")


def plain(path_mtu):
    return [*cases(pings=100, messages=100, size=20000, exchanges=200, seconds=60), *datagrams(path_mtu), *unreliable(),
            *multicast(path_mtu), *sockets(), table(), *daemon()]


LOSS = [*cases(pings=5, messages=20, size=5000, exchanges=20, seconds=120, attempts=4), *unreliable_with_loss(),
        *sockets_with_loss()]
SETS = {"1500": plain(1024), "4200": plain(4096), "loss": LOSS}

# Between two rxe of Linux 6.1 these fail as well, with what is said here.
RXE_CANNOT = {
    "udpong": "rconnect answers ENOENT, and its server never answers a greeting",
    "udaddy -p 2": "RDMA_CM_EVENT_ADDR_ERROR",
    "mckey over IPv6": "rdma_join_multicast answers ENOTSUPP (524)",
    "mckey -M": "rdma_join_multicast fails for an unmapped group",
    "riostream": "riomap answers ENOMEM",
    "rdma_xclient -c x": "rdma_create_ep answers EOPNOTSUPP: no XRC",
    "ibv_xsrq_pingpong": "ibv_open_xrcd answers EOPNOTSUPP: no XRC",
    "perftest -c XRC": "ibv_open_xrcd answers EOPNOTSUPP: no XRC",
    "ibv_rc_pingpong -t": "no time stamps of completions",
    "ibv_rc_pingpong -o": "no on-demand paging",
}
