"""The stock programs, as Debian packages them, and how each is called: one line a case.

Sizes and counts are what the programs themselves accept. The programs whose side channel is IPv4 only (ibv_*_pingpong,
perftest without -R) still run over an IPv6 GID: the place gives them an IPv4 address for the channel.
"""

import signal

from pairs import Case

ENDED = ()  # the server runs until somebody ends it


def rping():
    both = "-a {addr} -p {port}"
    yield Case("rping", f"rping -s {both}", f"rping -c {both} -C 10 -v", expect="^ping data: rdma-ping-9")
    yield Case("rping-verified-1000", f"rping -s {both} -V", f"rping -c {both} -C 1000 -V")
    for size in (23, 64, 1024, 4096, 5000, 65535):
        yield Case(f"rping-size-{size}", f"rping -s {both} -S {size} -V", f"rping -c {both} -C 20 -S {size} -V")
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
    yield Case("cmtime", "cmtime -b {any} -p {port}", "cmtime -s {addr} -p {port} -c 50", server_exit=ENDED,
               expect="^destroy")
    yield Case("rdma_client", "rdma_server -s {any} -p {port}", "rdma_client -s {addr} -p {port}", expect="rdma_client: end 0",
               expect_server="rdma_server: end 0")


def devices():
    yield Case("ibv_devices", "", "ibv_devices", expect=r"^\s+\w+\s+[0-9a-f]{16}")
    yield Case("ibv_devinfo", "", "ibv_devinfo", expect="PORT_ACTIVE")
    yield Case("ibv_devinfo-v", "", "ibv_devinfo -v", expect=r"GID\[ *0\]")


def pingpong():
    def case(name, options):
        line = "ibv_rc_pingpong {gid} -p {port} " + options
        return Case(name, line, line + " {side}", ready="tcp", expect="iters in", expect_server="iters in")

    yield case("ibv_rc_pingpong", "-c")
    yield case("ibv_rc_pingpong-events", "-e")
    yield case("ibv_rc_pingpong-10000", "-n 10000")
    for size in (1, 1000, 65536, 1048576):
        yield case(f"ibv_rc_pingpong-size-{size}", f"-s {size} -n 20 -r 20")


PERFTEST = {
    "ib_send_bw": "-n 200 -s 65536", "ib_send_lat": "-n 200 -s 64",
    "ib_write_bw": "-n 200 -s 65536", "ib_write_lat": "-n 200 -s 64",
    "ib_read_bw": "-n 200 -s 65536", "ib_read_lat": "-n 200 -s 64",
    "ib_atomic_bw": "-n 200", "ib_atomic_lat": "-n 200",
}


def perftest():
    """Over the TCP exchange, where the program finds the device by -d, and over rdma_cm (-R, IPv4 addresses only)."""
    for program, options in PERFTEST.items():
        line = f"{program} {options} -F -p {{port}}"
        raw = line + " -d {dev} -x {index}"
        yield Case(program, raw, raw + " {side}", ready="tcp", expect="#bytes")
        yield Case(f"{program}-R", line + " -R", line + " -R {addr}", families=(4,), expect="#bytes")
    line = "ib_write_bw -a -n 5 -F -p {port} -d {dev} -x {index}"
    yield Case("ib_write_bw-all", line, line + " {side}", ready="tcp", expect="^ 8388608", seconds=90)  # it calibrates 23 times
    line = "ib_send_bw -e -n 200 -F -p {port} -d {dev} -x {index}"
    yield Case("ib_send_bw-events", line, line + " {side}", ready="tcp", expect="#bytes")


CASES = [case for group in (rping, connection_manager, devices, pingpong, perftest) for case in group()]
