"""Which addresses this host has: many containers have no IPv6, not even on loopback."""

import socket


def is_own(address):
    with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind((address, 0))
        except OSError:
            return False
    return True
