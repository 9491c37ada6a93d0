"""Where programs run: a station is one end of a test, with an address of each family and a way to start programs.

Anything with start(), address() and gid() is a station; the interoperability tests have one that is a virtual machine.
"""

import ipaddress
import re
import time

from programs import Program

DEVINFO_SECONDS = 20


def wait_for(program, seconds, condition):
    """Polls until condition() holds or the time is over; returns whether it held. Stops early at the program's end."""
    deadline = time.monotonic() + seconds
    while not condition():
        if program.code() is not None or time.monotonic() > deadline:
            return condition()
        time.sleep(0.01)
    return True


class Station:
    """This host, or a network namespace of it when the launcher enters one."""

    def __init__(self, name, launcher, addresses):
        self.name = name
        self.launcher = launcher
        self.addresses = addresses  # {4: "127.0.0.1", 6: "::1"}
        self.gids = None

    def start(self, argv, cwd=None):
        return Program(argv, self.launcher, cwd)

    def address(self, family):
        return self.addresses[family]

    def gid(self, family):
        """(device, GID index) of this station's address of that family, as ibv_devinfo tells, or None."""
        if self.gids is None:
            self.gids = self._read_gids()
        return self.gids.get(ipaddress.ip_address(self.addresses[family]))

    def _read_gids(self):
        program = self.start(["ibv_devinfo", "-v"])
        wait_for(program, DEVINFO_SECONDS, lambda: program.code() is not None)
        program.stop()
        program.held_open()
        return parse_gids(program.text())


def parse_gids(devinfo):
    """{address: (device, index)} from the output of ibv_devinfo -v; of several with one address the first counts."""
    gids, device = {}, None
    for line in devinfo.splitlines():
        if match := re.match(r"hca_id:\s*(\S+)", line):
            device = match[1]
        elif match := re.match(r"\s*GID\[\s*(\d+)\]:\s*([0-9a-f:.]+)", line):
            address = ipaddress.ip_address(match[2])
            address = address.ipv4_mapped or address
            gids.setdefault(address, (device, int(match[1])))
    return gids
