"""The stock programs, as Debian packages them, and how each is called: one line a case.

Sizes and counts are what the programs themselves accept. The programs whose side channel is IPv4 only (ibv_*_pingpong,
perftest without -R) still run over an IPv6 GID: the place gives them an IPv4 address for the channel.
"""

import signal

from pairs import Case
from perftest import perftest

ENDED = ()  # the server runs until somebody ends it


def rping():
    both = "-a {addr} -p {port}"
    yield Case("rping", f"rping -s {both}", f"rping -c {both} -C 10 -v", expect="^ping data: rdma-ping-9")
    yield Case("rping-verified-1000", f"rping -s {both} -V", f"rping -c {both} -C 1000 -V")
    for size in (23, 64, 1024, 4096, 5000, 65535):
        yield Case(f"rping-size-{size}", f"rping -s {both} -S {size} -V", f"rping -c {both} -C 20 -S {size} -V")
    yield Case("rping-bound", f"rping -s {both}", f"rping -c {both} -C 20 -V -I {{own}}")
    yield Case("rping-any", "rping -s -a {any} -p {port} -V", f"rping -c {both} -C 20 -V")
    yield Case("rping-own-qp", f"rping -s {both} -q", f"rping -c {both} -C 20 -V -q")
    yield Case("rping-20-clients", f"rping -s -P {both}", f"rping -c {both} -C 20 -V", clients=20, server_exit=ENDED)


def connection_manager():
    yield Case("ucmatose", "ucmatose -b {any} -p {port}", "ucmatose -s {addr} -p {port}", expect="return status 0")
    yield Case("ucmatose-64k", "ucmatose -b {any} -p {port} -C 100 -S 65536", "ucmatose -s {addr} -p {port} -C 100 -S 65536",
               expect="return status 0")
    yield Case("ucmatose-100-ids", "ucmatose -b {any} -p {port} -c 100", "ucmatose -s {addr} -p {port} -c 100",
               expect="return status 0")
    yield Case("ucmatose-migrate", "ucmatose -b {any} -p {port} -m", "ucmatose -s {addr} -p {port} -m",
               expect="return status 0")
    yield Case("ucmatose-bound", "ucmatose -b {addr} -p {port}", "ucmatose -s {addr} -p {port}",
               expect="return status 0")
    for name, options in {"port-space-ib": "-P ib", "tos": "-t 32", "ack-timeout": "-a 10"}.items():
        yield Case(f"ucmatose-{name}", f"ucmatose -b {{addr}} -p {{port}} {options}",
                   f"ucmatose -s {{addr}} -p {{port}} {options}", expect="return status 0")
    for family, form in ((4, "ip"), (6, "ipv6")):
        yield Case(f"ucmatose-{form}", f"ucmatose -f {form} -b {{addr}} -p {{port}}",
                   f"ucmatose -f {form} -s {{addr}} -p {{port}}", families=(family,), expect="return status 0")
    yield Case("cmtime", "cmtime -b {any} -p {port}", "cmtime -s {addr} -p {port} -c 50", server_exit=ENDED,
               expect="^destroy")
    yield Case("rdma_client", "rdma_server -s {any} -p {port}", "rdma_client -s {addr} -p {port}", expect="rdma_client: end 0",
               expect_server="rdma_server: end 0")


def devices():
    yield Case("ibv_devices", "", "ibv_devices", expect=r"^\s+\w+\s+[0-9a-f]{16}")
    yield Case("ibv_devinfo", "", "ibv_devinfo", expect="PORT_ACTIVE")
    yield Case("ibv_devinfo-v", "", "ibv_devinfo -v", expect=r"GID\[ *0\]")


def events():
    """An address comes and goes in a namespace while ibv_asyncwatch waits."""
    watch = "ibv_asyncwatch & p=$!; sleep 0.3; ip address add 10.91.9.9/24 dev eth0; sleep 0.7; kill $p; wait"
    yield Case("ibv_asyncwatch", "", f"sh -c '{watch}; ip address del 10.91.9.9/24 dev eth0'", places="ns4",
               expect="event_type ")


def pingpong():
    def case(name, options):
        line = "ibv_rc_pingpong {gid} -p {port} " + options
        return Case(name, line, line + " {side}", ready="tcp", expect="iters in", expect_server="iters in")

    yield case("ibv_rc_pingpong", "-c")
    yield case("ibv_rc_pingpong-events", "-e")
    yield case("ibv_rc_pingpong-10000", "-n 10000")
    yield case("ibv_rc_pingpong-timestamps", "-t")
    yield case("ibv_rc_pingpong-on-demand", "-o -c")
    yield case("ibv_rc_pingpong-on-demand-prefetch", "-o -P -c")
    yield case("ibv_rc_pingpong-implicit-on-demand", "-O -c")
    yield case("ibv_rc_pingpong-device-memory", "-j")
    yield case("ibv_rc_pingpong-new-send", "-N")
    # Of more it takes an event without a completion for a failure, which the completion of another event's poll leaves.
    yield case("ibv_rc_pingpong-new-send-events-timestamps", "-N -e -t -n 1")
    yield case("ibv_rc_pingpong-path", "-m 256 -i 1 -l 3 -c")
    for size in (1, 1000, 65536, 1048576):
        yield case(f"ibv_rc_pingpong-size-{size}", f"-s {size} -n 20 -r 20")


def connected_pingpong():
    """UC, shared receive queues, XRC."""
    def case(name, line, expect):
        line += " {gid} -p {port}"
        return Case(name, line, line + " {side}", ready="tcp", expect=expect, expect_server=expect)

    for name, options in {"": "-c", "-events": "-e", "-size-1": "-s 1", "-size-65536": "-s 65536 -n 100",
                          "-path": "-m 256 -i 1 -l 3 -r 50 -c", "-10000": "-n 10000"}.items():
        yield case(f"ibv_uc_pingpong{name}", f"ibv_uc_pingpong {options}", "iters in")
    for name, options in {"": "-c", "-events": "-e", "-1-qp": "-q 1", "-size-65536": "-s 65536 -n 100",
                          "-path": "-m 256 -i 1 -l 3 -r 50 -q 4", "-10000": "-n 10000"}.items():
        yield case(f"ibv_srq_pingpong{name}", f"ibv_srq_pingpong {options}", "iters in")
    for name, options in {"": "", "-events": "-e", "-size-65536": "-s 65536 -n 50",
                          "-path": "-m 256 -i 1 -l 3", "-1000": "-n 1000"}.items():
        yield case(f"ibv_xsrq_pingpong{name}", f"ibv_xsrq_pingpong {options}", "success")
    line = "ibv_xsrq_pingpong {gid} -p {port}"
    yield Case("ibv_xsrq_pingpong-3-clients", line + " -c 3", line + " {side}", ready="tcp", clients=3, expect="success",
               expect_server="success")
    both = {"-rc": "-c r", "-xrc": "-c x"}
    for name, options in both.items():
        yield Case(f"rdma_xclient{name}", f"rdma_xserver -p {{port}} {options}",
                   f"rdma_xclient -s {{addr}} -p {{port}} {options}", expect="rdma_xclient: end 0", families=(4,),
                   expect_server="rdma_xserver: end 0")


def datagrams():
    def case(name, options):
        line = "ibv_ud_pingpong {gid} -p {port} " + options
        return Case(name, line, line + " {side}", ready="tcp", expect="iters in", expect_server="iters in")

    yield case("ibv_ud_pingpong", "-c")
    yield case("ibv_ud_pingpong-events", "-e")
    yield case("ibv_ud_pingpong-path", "-i 1 -l 3 -r 50 -c")
    yield case("ibv_ud_pingpong-10000", "-n 10000")
    for size in (1, 1000):
        yield case(f"ibv_ud_pingpong-size-{size}", f"-s {size} -n 100")

    done = "return status 0"
    for name, options in {"": "", "-no-data": "-C 0", "-5-ids": "-c 5 -C 100 -S 1000", "-ipoib": "-p 2",
                          "-tos": "-t 32"}.items():
        yield Case(f"udaddy{name}", f"udaddy -b {{addr}} {options}", f"udaddy -s {{addr}} {options}", expect=done,
                   expect_server=done)


# IPv6 groups do not exist on the loopback interface: it has no route for them.
MULTICAST = "lo4|ns"


def multicast():
    def case(name, options, places=MULTICAST):
        line = f"mckey -b {{own}} {options}"
        return Case(name, line, line + " -s", places=places, expect="return status 0", expect_server="return status 0")

    yield case("mckey", "-m {group}")
    yield case("mckey-5-ids", "-m {group} -c 5 -C 100 -S 500")
    yield case("mckey-ipoib", "-m {group} -p 2")
    line = "mckey -b {own} -m {group}"
    yield Case("mckey-send-only", line, line + " -s -o", places=MULTICAST, expect="return status 0",
               expect_server="return status 0")
    yield Case("mckey-no-loopback", line, line + " -s -l", places=MULTICAST, expect="return status 0",
               expect_server="return status 0")
    three = "; ".join(["mckey -b {own} -m {group} & p=\"$p $!\""] * 3)
    yield Case("mckey-3-receivers", f"sh -c 'p=; {three}; for p in $p; do wait $p || exit 1; done'", line + " -s",
               ready="(?s)(joined dgid.*){3}", places=MULTICAST,
               expect="return status 0", expect_server="(?s)(return status 0.*){3}")
    # The host has left the group when the program ends.
    left = "! grep -qi -e 020107EF -e 'ff0e00000000000000000000000070102' /proc/net/igmp /proc/net/igmp6"
    yield Case("mckey-leaves", f"sh -c '{line} && " + left.replace("'", "") + "'", line + " -s", places=MULTICAST, ready="joined dgid",
               expect="return status 0", expect_server="return status 0")
    yield case("mckey-mgid", "-M ff0e::7:103", places="ns6")


QPERF = {
    "latency": "rc_lat rc_rdma_read_lat rc_rdma_write_lat rc_rdma_write_poll_lat",
    "bandwidth": "rc_bw rc_bi_bw rc_rdma_read_bw rc_rdma_write_bw",
    "atomic": "rc_compare_swap_mr rc_fetch_add_mr ver_rc_compare_swap ver_rc_fetch_add",
}


def qperf():
    """Its RC tests, one after the other to one server, which forks for each. Over rdma_cm, IPv4 only. Its UC and UD tests
    know neither rdma_cm nor GIDs, so no RoCE device can run them; its XRC tests are not in Debian's build."""
    server = "qperf -lp {port}"
    for name, tests in QPERF.items():
        order = "(?s)" + ".*".join(fr"^{test}:$.*^    \w+ += " for test in tests.split())
        yield Case(f"qperf-{name}", server, f"{server} -cm 1 -t 1 {{addr}} {tests}", ready="tcp", server_exit=ENDED,
                   families=(4,), expect=order)


def rsockets():
    """Streams, mapped buffers, files and datagrams over rsockets."""
    def stream(name, program, options, **more):
        return Case(name, f"{program} -b {{addr}} -p {{port}} {options}", f"{program} -s {{addr}} -p {{port}} {options}",
                    ready="name +bytes", expect="^custom", **more)

    small, large = "-I 100 -C 10 -S 64", "-I 10 -C 10 -S 1000000"
    for size, options in (("", small), ("-1M", large)):
        yield stream(f"rstream{size}", "rstream", options)
        yield stream(f"rstream-blocking{size}", "rstream", f"-T b {options}")
        yield stream(f"rstream-async{size}", "rstream", f"-T a {options}")
        yield stream(f"rstream-nonblocking{size}", "rstream", f"-T n {options}")
        yield stream(f"rstream-verified{size}", "rstream", f"-T v {options}")
        yield stream(f"riostream{size}", "riostream", f"-T v {options}")
    yield stream("rstream-resolved", "rstream", f"-T r {small}")
    yield stream("rstream-keepalive", "rstream", f"-k 1 {small}")
    for family, form in ((4, "ip"), (6, "ipv6")):
        yield stream(f"rstream-{form}", "rstream", f"-f {form} {small}", families=(family,))
    yield stream("rstream-inline", "rstream", f"-i 64 {small}")
    yield stream("rstream-all", "rstream", "-S all -I 5 -C 2")
    for way in "abn":
        yield stream(f"riostream-{way}", "riostream", f"-T {way} {small}")
    yield stream("rstream-buffer", "rstream", f"-B 65536 {large}")
    yield Case("rcopy", "rcopy -p {port}", "rcopy /proc/self/exe {addr}:/tmp/verbena-rcopy -p {port}", families=(4,),
               server_exit=ENDED, expect="^[0-9]+ bytes")
    big = "/var/tmp/verbena-{port}"
    make = f"head -c 1G /dev/zero | openssl enc -aes-128-ctr -pass pass:verbena -nosalt 2>/dev/null >{big}.in"
    copy = f"rcopy {big}.in {{addr}}:{big}.out -p {{port}} && cmp {big}.in {big}.out"
    yield Case("rcopy-1G", "rcopy -p {port}", f"sh -c '{make}; {copy}; s=$?; rm -f {big}.in {big}.out; exit $s'",
               families=(4,), server_exit=ENDED, expect="^1073741824 bytes", seconds=90)
    line = "-p {port} -C 1000 -S"
    # With -T e udpong repeats a message after 1 ms, under the number of whichever echo it read last, and each repetition
    # stays under way. When a buffer (2 KiB a slot) is full of them, the echo that it waits for is dropped, for ever.
    for name, options in (("", "100 -T e"), ("-blocking", "1000 -T b"), ("-async", "100 -T a -T e"),
                          ("-nonblocking", "100 -T n -T e"), ("-buffer", "100 -T e -B 262144")):
        yield Case(f"udpong{name}", f"udpong -b {{addr}} {line} {options.replace('-T a', '')} -T b", f"udpong -s {{addr}} {line} {options}",
                   server_exit=ENDED, expect="^custom")


def sockets():
    """Programs that know nothing of RDMA. That the bytes go over RDMA is tests/rsocket/preload_test.py's to show."""
    preload = "env LD_PRELOAD={preload}"
    rstream = f"{preload} RDMAV_FORK_SAFE=1 rstream -T f -p {{port}} -I 100 -C 10 -S 1000"
    yield Case("rstream-fork", f"{rstream} -b {{addr}}", f"{rstream} -s {{addr}}", ready="tcp", expect="^custom")
    iperf = f"{preload} iperf3 -p {{port}}"
    yield Case("iperf3", f"{iperf} -s -1", f"{iperf} -c {{addr}} -t 2", ready="Server listening",
                   expect="receiver$")
    yield Case("iperf3-reverse", f"{iperf} -s -1", f"{iperf} -c {{addr}} -t 2 -R", ready="Server listening",
                   expect="receiver$")
    yield Case("iperf3-4-streams", f"{iperf} -s -1", f"{iperf} -c {{addr}} -t 2 -P 4", ready="Server listening",
                   expect="SUM.*receiver$")


GROUPS = (rping, connection_manager, devices, events, pingpong, connected_pingpong, datagrams, multicast, perftest, qperf, rsockets, sockets)
CASES = [case for group in GROUPS for case in group()]
