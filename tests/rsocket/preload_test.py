#!/usr/bin/env python3
"""preload_test.py BUILD: programs that know nothing of RDMA, under `verbena run --sockets`: their bytes go over RDMA (the
packets that Verbena writes of both ends say so), and a peer that has no rsockets is spoken to over TCP."""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import edge_ways
import fork_ways
import ways

BUILD = pathlib.Path(sys.argv.pop(1)).resolve()
ENVIRONMENT = os.environ | {"VERBENA_FABRIC": f"test-preload-{os.getpid()}"}
FORK_SAFE = ENVIRONMENT | {"RDMAV_FORK_SAFE": "1"}
SIZE = 5_000_000

SERVER = """
import http.server, sys
class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_): pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Quiet)
print(server.server_port, flush=True)
server.serve_forever()
"""
CLIENT = """
import sys, urllib.request
sys.stdout.buffer.write(urllib.request.build_opener(urllib.request.ProxyHandler({})).open(sys.argv[1], timeout=20).read())
"""
# One thread waits for everything in one epoll set: a listener, connections, and a pipe.
EPOLL = """
import os, select, socket
listener = socket.create_server(("127.0.0.1", 0)); listener.setblocking(False)
client = socket.create_connection(listener.getsockname(), timeout=10)
out, into = os.pipe()
epoll = select.epoll(); epoll.register(listener, select.EPOLLIN); epoll.register(out, select.EPOLLIN)
server, got, said = None, b"", False
client.sendall(b"x" * 100000)
while len(got) < 100000 or not said:
    for fd, events in epoll.poll(10):
        if fd == listener.fileno():
            server, _ = listener.accept(); server.setblocking(False)
            epoll.register(server, select.EPOLLIN)
            os.write(into, b"pipe")
        elif fd == out:
            said = os.read(out, 10) == b"pipe"
        else:
            got += server.recv(1 << 16)
client.shutdown(socket.SHUT_WR)
while epoll.poll(10) and server.recv(10):
    pass
print("done")
"""


# Both at once: a server that forks after accept, and has thrown its environment away.
FORGETFUL = """
import ctypes, os, socket
listener = socket.create_server(("127.0.0.1", 0))
print(listener.getsockname()[1], flush=True)
connection, _ = listener.accept()
if os.fork() == 0:
    ctypes.CDLL(None).clearenv()
    connection.sendall(b"".join(iter(lambda: connection.recv(1 << 16), b"")))
    connection.close()
    os._exit(0)
connection.close()
os.wait()
"""
ECHOED = """
import socket, sys
client = socket.create_connection(("127.0.0.1", int(sys.argv[1])), timeout=20)
data = bytes(range(256)) * 8000
client.sendall(data)
client.shutdown(socket.SHUT_WR)
assert b"".join(iter(lambda: client.recv(1 << 16), b"")) == data
"""
# A child that goes on with its parent's rsockets hears at once that they are of no use to it, however it asks.
CHILD = """
import errno, os, select, socket
listener = socket.create_server(("127.0.0.1", 0))
client = socket.create_connection(listener.getsockname(), timeout=20)
server, _ = listener.accept()
def error_of(call):
    try: call()
    except OSError as error: return error.errno
if os.fork() == 0:
    poll = select.poll()
    poll.register(server, select.POLLIN)
    assert poll.poll() == [(server.fileno(), select.POLLIN | select.POLLERR | select.POLLHUP)]
    assert select.select([server], [server], []) == ([server], [server], [])
    poll = select.poll()
    poll.register(listener, select.POLLIN)
    assert poll.poll() == [(listener.fileno(), select.POLLNVAL)]
    assert error_of(lambda: select.select([listener], [], [])) == errno.EBADF
    assert listener.getsockname() and error_of(server.getpeername) == errno.ENOTCONN
    assert error_of(lambda: select.epoll().register(server)) == errno.EBADF
    assert error_of(lambda: server.recv(1)) == error_of(lambda: server.send(b"x")) == errno.ECONNRESET
    assert error_of(listener.accept) == errno.EINVAL
    print("done", flush=True)
    os._exit(0)
assert os.wait()[1] == 0
client.sendall(b"x")
assert server.recv(1) == b"x"
"""
# What works with TCP, and not with rsockets: a connection that a child goes on with, or another process.
INHERITED = """
import os, socket
listener = socket.create_server(("127.0.0.1", 0))
client = socket.create_connection(listener.getsockname(), timeout=20)
server, _ = listener.accept()
if os.fork() == 0:
    try: server.send(b"x")
    except OSError: pass
    os._exit(0)
os.wait()
"""
PASSED = """
import os, socket
listener = socket.create_server(("127.0.0.1", 0))
ends = socket.socketpair()
socket.send_fds(ends[0], [b"x"], [listener.fileno()])
"""


def command(*words, sockets=True, capture=None):
    options = ["--sockets"] if sockets else []
    if capture:
        options += ["--capture", str(capture)]
    return [str(BUILD / "bin/verbena"), "run", *options, "--", *words]


class Preload(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        (self.folder / "www").mkdir()
        (self.folder / "www/file").write_bytes(os.urandom(SIZE))

    def captured(self, name):
        return sum(file.stat().st_size for file in self.folder.glob(name + ".*"))

    def serve(self, **options):
        server = subprocess.Popen(command(sys.executable, "-c", SERVER, **options), stdout=subprocess.PIPE, text=True,
                                  cwd=self.folder / "www", env=ENVIRONMENT)
        self.addCleanup(server.stdout.close)
        self.addCleanup(server.wait)
        self.addCleanup(server.kill)
        return f"http://127.0.0.1:{int(server.stdout.readline())}/file"

    def fetch(self, url, **options):
        result = subprocess.run(command(sys.executable, "-c", CLIENT, url, **options), stdout=subprocess.PIPE, timeout=60,
                                env=ENVIRONMENT, check=True)
        self.assertEqual((self.folder / "www/file").read_bytes(), result.stdout)

    def test_http_goes_over_rdma(self):
        url = self.serve(capture=self.folder / "server")
        self.fetch(url, capture=self.folder / "client")
        self.assertGreater(self.captured("client"), SIZE)

    def test_a_plain_server_is_reached_over_tcp(self):
        self.fetch(self.serve(sockets=False), capture=self.folder / "client")
        self.assertLess(self.captured("client"), SIZE)

    def test_epoll(self):
        result = subprocess.run(command(sys.executable, "-c", EPOLL, capture=self.folder / "epoll"), timeout=60, text=True,
                                stdout=subprocess.PIPE, env=ENVIRONMENT)
        self.assertEqual((0, "done\n"), (result.returncode, result.stdout))
        self.assertGreater(self.captured("epoll"), 100_000)

    def go(self, way, words, environment):
        with self.subTest(way, command=words[0]):
            result = subprocess.run(words, timeout=60, text=True, stdout=subprocess.PIPE, env=environment)
            self.assertEqual((0, "done\n"), (result.returncode, result.stdout))

    def test_ways(self):
        for module in (ways, edge_ways):
            script = str(pathlib.Path(module.__file__).resolve())
            for way in module.WAYS:
                environment = ENVIRONMENT | ({"RDMAV_FORK_SAFE": "1"} if way == "forking" else {})
                for words in ([sys.executable, script, way], command(sys.executable, script, way)):
                    self.go(way, words, environment)

    def test_ways_with_fork_support(self):
        script = str(pathlib.Path(fork_ways.__file__).resolve())
        for way in fork_ways.WAYS:
            self.go(way, command(sys.executable, script, way), FORK_SAFE)
        script = str(pathlib.Path(ways.__file__).resolve())
        for way in ("select", "poll", "epoll", "connecting_without_waiting", "duplicates_of_an_epoll_set",
                    "a_plain_server_in_an_epoll_set", "a_port_for_two"):
            self.go(way, command(sys.executable, script, way), FORK_SAFE)

    def test_fork_support_goes_over_rdma(self):
        """Also where the server's environment is gone by then."""
        server = subprocess.Popen(command(sys.executable, "-c", FORGETFUL, capture=self.folder / "server"), text=True,
                                  stdout=subprocess.PIPE, env=FORK_SAFE)
        self.addCleanup(server.stdout.close)
        self.addCleanup(server.wait)
        self.addCleanup(server.kill)
        subprocess.run(command(sys.executable, "-c", ECHOED, server.stdout.readline().strip(),
                               capture=self.folder / "client"), timeout=60, env=FORK_SAFE, check=True)
        self.assertGreater(self.captured("client"), 2_000_000)

    def test_a_child_with_its_parents_rsockets(self):
        self.go("child", command(sys.executable, "-c", CHILD), ENVIRONMENT)

    def test_the_log_tells_of_other_processes(self):
        for program, words in ((INHERITED, "is a rsocket of process"), (PASSED, "is sent to another process")):
            log = self.folder / "log"
            subprocess.run(command(sys.executable, "-c", program), timeout=60,
                           env=ENVIRONMENT | {"VERBENA_LOG": f"warn,file={log}"})
            lines = [line for line in log.read_text().splitlines() if words in line]
            self.assertEqual(1, len(lines), log.read_text())
            self.assertIn("RDMAV_FORK_SAFE=1", lines[0])
            log.unlink()


if __name__ == "__main__":
    unittest.main()
