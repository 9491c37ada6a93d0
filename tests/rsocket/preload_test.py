#!/usr/bin/env python3
"""preload_test.py BUILD: programs that know nothing of RDMA, under `verbena run --sockets`: their bytes go over RDMA (the
packets that Verbena writes of both ends say so), and a peer that has no rsockets is spoken to over TCP."""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import ways

BUILD = pathlib.Path(sys.argv.pop(1)).resolve()
ENVIRONMENT = os.environ | {"VERBENA_FABRIC": f"test-preload-{os.getpid()}"}
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

    def test_ways(self):
        script = str(pathlib.Path(ways.__file__).resolve())
        for way in ways.WAYS:
            environment = ENVIRONMENT | ({"RDMAV_FORK_SAFE": "1"} if way == "forking" else {})
            for words in ([sys.executable, script, way], command(sys.executable, script, way)):
                with self.subTest(way, command=words[0]):
                    result = subprocess.run(words, timeout=60, text=True, stdout=subprocess.PIPE, env=environment)
                    self.assertEqual((0, "done\n"), (result.returncode, result.stdout))


if __name__ == "__main__":
    unittest.main()
