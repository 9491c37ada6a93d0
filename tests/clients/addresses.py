"""Which addresses this host has: many containers have no IPv6, not even on loopback, and some kernels do not know it."""

import socket


def is_own(address):
    try:
        with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.bind((address, 0))
    except OSError:
        return False
    return True


def knows(family):
    return family == 4 or is_own("::")
