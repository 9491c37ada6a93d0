"""Where a case runs: one station with itself over loopback, or two network namespaces joined by a veth pair; the local
places are loopback by the memory that processes of one host share.

make_places() is a context manager: what it made (namespaces) is taken away again at its end, also after an interrupt.
"""

import contextlib
import dataclasses
import os
import re
import subprocess

from addresses import is_own, knows
from stations import Station

NAMES = ("lo4", "lo6", "local4", "local6", "ns4-1500", "ns6-1500", "ns4-9000", "ns6-9000")
ADDRESSES = ({4: "10.91.0.1", 6: "fd91::1"}, {4: "10.91.0.2", 6: "fd91::2"})
LOOPBACK = {4: "127.0.0.1", 6: "::1"}


@dataclasses.dataclass(frozen=True)
class Place:
    name: str
    family: int
    server: object  # a station
    client: object
    shares: str = ""  # places that share something (addresses, ports) have this in common: one case at a time there


class Unavailable(Exception):
    """This host cannot make the place; the text says why."""


@contextlib.contextmanager
def make_places(names, launcher, loopback):
    """Yields [(name, Place, or the reason why there is none)]; loopback: the addresses of the lo places."""
    stations = {"lo": Station("this host", ["env", "VERBENA_LINK=wire", *launcher], loopback),
                "local": Station("this host", ["env", "VERBENA_LINK=local", *launcher], loopback)}
    with contextlib.ExitStack() as made:
        places = []
        for name in names:
            kind, family, mtu = re.fullmatch(r"([a-z]+)([46])-?(\d*)", name).groups()
            if kind in stations:
                if not is_own(loopback[int(family)]):
                    places.append((name, f"{loopback[int(family)]} is no address of this host"))
                    continue
                here = stations[kind]
                places.append((name, Place(name, int(family), here, here, "loopback")))
                continue
            if not knows(int(family)):
                places.append((name, "this kernel knows no IPv6"))
                continue
            try:
                pair = made.enter_context(namespaces(name, launcher, int(mtu)))
                places.append((name, Place(name, int(family), *pair, name)))
            except Unavailable as reason:
                places.append((name, str(reason)))
        yield places


@contextlib.contextmanager
def namespaces(place, launcher, mtu):
    """Two namespaces with an interface "eth0" each, joined; yields a station in each."""
    if os.geteuid() != 0:
        raise Unavailable("network namespaces need root")
    names = [f"verbena-{os.getpid()}-{place}-{end}" for end in "ab"]
    try:
        try:
            for name in names:
                ip("netns", "add", name)
                ip("-n", name, "link", "set", "lo", "up")
            ip("link", "add", "eth0", "netns", names[0], "mtu", str(mtu), "type", "veth",
               "peer", "name", "eth0", "netns", names[1], "mtu", str(mtu))
            for name, addresses in zip(names, ADDRESSES):
                ip("-n", name, "link", "set", "eth0", "up")
                ip("-n", name, "address", "add", addresses[4] + "/24", "dev", "eth0")
                if knows(6):
                    ip("-n", name, "address", "add", addresses[6] + "/64", "dev", "eth0", "nodad")
        except subprocess.CalledProcessError as error:
            raise Unavailable(f"network namespaces cannot be made here: {error.stderr.strip()}") from error
        yield [Station(name, ["ip", "netns", "exec", name, *launcher], addresses)
               for name, addresses in zip(names, ADDRESSES)]
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "delete", name], stderr=subprocess.DEVNULL, check=False)


def ip(*words):
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True)
