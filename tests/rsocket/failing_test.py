#!/usr/bin/env python3
"""failing_test.py BUILD: rsockets tell which of their own calls failed, whatever fails as they clean up."""

import ctypes
import errno
import json
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


# What was there ends, and new sockets are the next daemon's.
WITHOUT_DAEMON = """
import errno, os, signal, socket, sys
def pair(listener):
    client = socket.create_connection(listener.getsockname(), timeout=30)
    server, _ = listener.accept()
    client.sendall(b"x")
    assert server.recv(1) == b"x"
    return client, server
def error_of(call):
    try: call()
    except OSError as error: return error.errno
listener = socket.create_server(("127.0.0.1", 0))
client, server = pair(listener)
print(flush=True)
os.kill(int(sys.stdin.readline()), signal.SIGKILL)
assert error_of(lambda: server.recv(1)) in (errno.ENETDOWN, errno.ECONNRESET)  # its queue pair may end first
assert error_of(listener.accept) == errno.ENETDOWN
for _ in range(3):
    pair(socket.create_server(("127.0.0.1", 0)))
print("done")
"""


class Failing(unittest.TestCase):
    def test_a_daemon_that_dies(self):
        environment = dict(ENVIRONMENT, VERBENA_FABRIC=f"test-failing-without-{os.getpid()}")
        verbena = str(BUILD / "bin/verbena")
        program = subprocess.Popen([verbena, "run", "--sockets", "--", sys.executable, "-c", WITHOUT_DAEMON], text=True,
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)
        self.addCleanup(program.kill)
        program.stdout.readline()
        status = subprocess.run([verbena, "status", "-j"], stdout=subprocess.PIPE, env=environment, check=True).stdout
        out, _ = program.communicate(f"{json.loads(status)['daemon']['pid']}\n", timeout=60)
        self.assertEqual((0, "done\n"), (program.returncode, out))

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
