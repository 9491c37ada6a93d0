"""A wire that loses packets: how much of the lossless bandwidth is left, and how much of TCP's. The dropper is nftables at
both ends, where packets arrive; nothing is segmented or merged on the way, so that everybody loses single packets. The same
between two virtual machines, where rxe is, too: guest_loss.py."""

import contextlib
import shutil
import subprocess

import measuring

PERCENT = (0.1, 1, 5)
UNMERGED = ("ethtool", "-K", "eth0", "gso", "off", "tso", "off", "gro", "off", "tx-udp-segmentation", "off")


def missing():
    """Why it cannot be measured here, or None."""
    for tool in ("nft", "ethtool", "iperf3"):
        if not shutil.which(tool):
            return f"{tool} is not installed"
    return None


@contextlib.contextmanager
def dropping(ends, percent):
    for end in ends:
        inside(end, *UNMERGED)
        inside(end, "nft", "add table inet loss; add chain inet loss arrival { type filter hook prerouting priority -300; }; "
               f"add rule inet loss arrival iifname eth0 {drops(percent)}")
    try:
        yield
    finally:
        for end in ends:
            inside(end, "nft", "delete table inet loss")


def drops(percent):
    return f"numgen random mod 1000 < {round(10 * percent)} counter drop"


def inside(end, *words):
    """What the command prints that runs in the end's namespace."""
    done = subprocess.run(["ip", "netns", "exec", end.name, *words], check=False, capture_output=True, text=True)
    if done.returncode != 0:
        raise measuring.Failed(f"{words[0]}: {measuring.last_line(done.stderr)}")
    return done.stdout


def of_verbena(ends, perftest, percent):
    with dropping(ends, percent):
        return perftest.bandwidth("ib_write_bw", 1048576, 1000 if percent < 5 else 200)


def of_tcp(ends, wraps, address, percent):
    with dropping(ends, percent):
        return measuring.tcp_stream(*wraps, address)
