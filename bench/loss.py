"""A wire that loses packets: how much of the lossless bandwidth is left, and how much of TCP's. Nobody segments behind the
dropper (netem on both ends' interfaces), so that all lose single packets."""

import contextlib
import shutil
import subprocess

import measuring

PERCENT = (0.1, 1, 5)


def missing():
    """Why it cannot be measured here, or None."""
    for tool in ("tc", "ethtool", "iperf3"):
        if not shutil.which(tool):
            return f"{tool} is not installed"
    return None


@contextlib.contextmanager
def dropping(ends, percent):
    for end in ends:
        inside(end, "ethtool", "-K", "eth0", "gso", "off", "tso", "off", "gro", "off", "tx-udp-segmentation", "off")
        if percent:
            inside(end, "tc", "qdisc", "replace", "dev", "eth0", "root", "netem", "loss", f"{percent}%", "limit", "100000")
    try:
        yield
    finally:
        for end in ends:
            subprocess.run(["ip", "netns", "exec", end.name, "tc", "qdisc", "delete", "dev", "eth0", "root"], check=False,
                           capture_output=True)


def inside(end, *words):
    done = subprocess.run(["ip", "netns", "exec", end.name, *words], check=False, capture_output=True, text=True)
    if done.returncode != 0:
        raise measuring.Failed(f"{words[0]}: {measuring.last_line(done.stderr)}")


def of_verbena(ends, perftest, percent):
    with dropping(ends, percent):
        return perftest.bandwidth("ib_write_bw", 1048576, 1000 if percent < 5 else 200)


def of_tcp(ends, wraps, address, percent):
    with dropping(ends, percent):
        return measuring.tcp_stream(*wraps, address)
