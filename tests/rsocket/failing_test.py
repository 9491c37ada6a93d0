#!/usr/bin/env python3
"""failing_test.py BUILD: rsockets tell which of their own calls failed, whatever fails as they clean up."""

import ctypes
import errno
import os
import pathlib
import socket
import subprocess
import sys
import unittest

BUILD = pathlib.Path(sys.argv.pop(1)).resolve()
ENVIRONMENT = os.environ | {"VERBENA_FABRIC": f"test-failing-{os.getpid()}"}


def connect(library):
    """A datagram socket, whose queue pair is made now."""
    calls = ctypes.CDLL(library, use_errno=True)
    family = socket.AF_INET.to_bytes(2, sys.byteorder)
    name = family + (7).to_bytes(2, "big") + socket.inet_aton("127.0.0.1") + bytes(8)
    result = calls.rconnect(calls.rsocket(socket.AF_INET, socket.SOCK_DGRAM, 0), name, len(name))
    print(result, errno.errorcode.get(ctypes.get_errno()))


class Failing(unittest.TestCase):
    def test_a_datagram_socket_without_memory(self):
        for cleaning in ("ibv_destroy_qp", "rdma_destroy_id"):
            plan = f"fail call=ibv_reg_mr errno=EPERM; fail call={cleaning} errno=EBUSY"
            command = [str(BUILD / "bin/verbena"), "run", "--fault", plan, "--", sys.executable, __file__, str(BUILD), "connect"]
            result = subprocess.run(command, timeout=60, text=True, stdout=subprocess.PIPE, env=ENVIRONMENT)
            self.assertEqual((0, "-1 EPERM\n"), (result.returncode, result.stdout), cleaning)


if __name__ == "__main__":
    if sys.argv[1:] == ["connect"]:
        connect(BUILD / "lib/librdmacm.so.1")
    else:
        unittest.main()
