"""What runs between Verbena and Linux soft-RoCE: stock programs, with sizes that an emulated guest does in a second.

Every case runs in both directions, over IPv4 and over IPv6, at two MTUs; LOSS are the same programs with counts for a
network that drops one packet in twenty.
"""

from pairs import Case


def perftest(program, options, seconds):
    line = f"{program} {options} -F -p {{port}} -d {{dev}} -x {{index}}"
    return Case(program, line, line + " {side}", ready="tcp", expect="#bytes", seconds=seconds)


def cases(pings, messages, size, exchanges, seconds, attempts=1):
    """attempts: for ibv_rc_pingpong, which agrees with nobody on the end. Whoever is done first destroys its queue pair;
    if its last acknowledgement was lost the other can never have it."""
    ping = f"-a {{addr}} -p {{port}} -C {pings} -V -S {size}"
    yield Case("rping", f"rping -s {ping}", f"rping -c {ping}", seconds=seconds)
    yield Case("ucmatose", f"ucmatose -b {{any}} -p {{port}} -C {messages}", f"ucmatose -s {{addr}} -p {{port}} -C {messages}",
               expect="return status 0", seconds=seconds)
    line = f"ibv_rc_pingpong {{gid}} -p {{port}} -c -s {size} -n {exchanges}"
    yield Case("ibv_rc_pingpong", line, line + " {side}", ready="tcp", expect="iters in", seconds=min(seconds, 40),
               attempts=attempts)
    for program in ("ib_write_bw", "ib_read_bw", "ib_send_bw"):
        yield perftest(program, f"-n {messages} -s 65536", seconds)
    yield perftest("ib_atomic_bw", f"-n {messages}", seconds)


def table():
    """tests/verbs: every way in which a request fails, and how both sides see it."""
    line = "verbs_table -d {dev} -x {index} -p {port}"
    return Case("verbs_table", line, line + " {side}", ready="tcp", expect=": 0 of", expect_server=": 0 of", seconds=120)


PLAIN = list(cases(pings=100, messages=100, size=20000, exchanges=200, seconds=60)) + [table()]
LOSS = list(cases(pings=5, messages=20, size=5000, exchanges=20, seconds=120, attempts=4))
