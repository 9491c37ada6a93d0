"""perftest's programs: every option that the program takes over every transport that it takes.

What perftest itself refuses is left out: UC and XRC over rdma_cm, events of WRITEs, UD with both rdma_cm and a shared
receive queue (it posts to a queue that is not there). Its raw_ethernet_* programs need raw packet queues, which no part
of Verbena has.
"""

from pairs import Case

TRANSPORTS = {
    "ib_send_bw": ("RC", "UC", "UD", "XRC"), "ib_send_lat": ("RC", "UC", "UD", "XRC"),
    "ib_write_bw": ("RC", "UC", "XRC"), "ib_write_lat": ("RC", "UC", "XRC"),
    "ib_read_bw": ("RC", "XRC"), "ib_read_lat": ("RC", "XRC"),
    "ib_atomic_bw": ("RC", "XRC"), "ib_atomic_lat": ("RC", "XRC"),
}
MANAGED = {(transport, name) for transport in ("RC", "UD") for name in ("", "-events", "-both-ways", "-16-qps", "-srq")}
MANAGED.remove(("UD", "-srq"))


def options(program, transport):
    """{name of the option's row: its words}, for what the program knows."""
    verb, kind = program.split("_")[1:]
    rows = {"": "", "-old-post": "--use_old_post_send"}
    if verb != "write":
        rows["-events"] = "-e"
    if verb != "atomic":
        rows["-all"] = "-a"
    if kind == "bw":
        rows |= {"-both-ways": "-b", "-16-qps": "-q 16", "-lists": "-l 8", "-lists-old-post": "-l 8 --use_old_post_send"}
    if verb in ("send", "write"):
        rows |= {"-inline": "-s 64 -I 64", "-inline-old-post": "-s 64 -I 64 --use_old_post_send"}
    if verb == "send" and transport != "XRC":  # which has nothing else
        rows["-srq"] = "--use-srq"
    if program == "ib_atomic_bw":
        rows["-compare"] = "-A CMP_AND_SWAP"
    return rows


def line(program, transport, words):
    """A row's command without what says where it runs. Nothing resends what UC and UD lose when a receiver comes late and
    its socket is full, and perftest waits for it: what they send fits into a default socket."""
    lossy, count, given = transport in ("UC", "UD"), 200, words.split()
    if "-a" in given:
        count = 5
    elif lossy and "-q" in given:
        words, count = words + " -s 64", 8
    elif "-s" not in given and "atomic" not in program:
        words += " -s " + ("64" if program.endswith("lat") else "1024" if lossy else "65536")
    if lossy and program.endswith("bw"):
        count = min(count, 64)  # of which lists are a part
    return " ".join(f"{program} -c {transport} -n {count} {words} -F -p {{port}}".split())


def perftest():
    """Over the TCP exchange, where the program finds the device by -d, and over rdma_cm (-R, IPv4 addresses only)."""
    for program, transports in TRANSPORTS.items():
        for transport in transports:
            suffix = "" if transport == "RC" else "-" + transport.lower()
            for name, words in options(program, transport).items():
                more = {"ready": "tcp", "expect": "^ *[0-9]+ +[0-9]+ ", "seconds": 15}
                if "-a" in words:  # it calibrates 23 times
                    more |= {"seconds": 90, "attempts": 3 if transport in ("UC", "UD") else 1}
                raw = line(program, transport, words) + " -d {dev} -x {index}"
                yield Case(f"{program}{suffix}{name}", raw, raw + " {side}", **more)
                if (transport, name) in MANAGED:
                    managed = line(program, transport, words) + " -R"
                    yield Case(f"{program}{suffix}{name}-R", managed, managed + " {addr}", families=(4,), **more | {"ready": "quiet"})
