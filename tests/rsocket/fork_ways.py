#!/usr/bin/env python3
"""fork_ways.py NAME: ways in which connections of programs with fork support (RDMAV_FORK_SAFE=1) come about, and do not.
Ends with "done" where everything arrived; as ways.py, which see."""

import contextlib
import errno
import os
import select
import socket
import subprocess
import sys
import threading
import time

from ways import HERE, SECONDS, ask_asynchronously, connected, pattern, plain_server, receive_all

SOON = 0.3  # what does not wait is over by then; a connection's patience is 0.5 s


def other_process(code, *words, **changes):
    """A python of its own; a variable that is None is none of its environment."""
    environment = {name: value for name, value in (os.environ | changes).items() if value is not None}
    return subprocess.Popen([sys.executable, "-c", code, *map(str, words)], stdout=subprocess.PIPE, env=environment)


CLIENT = """
import socket, sys
client = socket.create_connection(("127.0.0.1", int(sys.argv[1])), timeout=30)
if sys.argv[2] == "speaks":
    client.sendall(b"hello")
    client.shutdown(socket.SHUT_WR)
sys.stdout.buffer.write(b"".join(iter(lambda: client.recv(1 << 16), b"")))
"""


def serve(client_speaks, **changes):
    """One connection to a client of its own process, who gets what was sent and no byte else."""
    data = pattern(300_000)
    with socket.create_server(HERE) as listener:
        client = other_process(CLIENT, listener.getsockname()[1], "speaks" if client_speaks else "waits", **changes)
        with listener.accept()[0] as server:
            server.settimeout(SECONDS)
            if client_speaks:
                assert receive_all(server) == b"hello"
            server.sendall(data)
        out = client.communicate(timeout=SECONDS)[0]
    assert out == data, (len(out), out[:20], client_speaks)


def clients_without_rsockets():
    """They wait for the server's first byte, and get that."""
    for speaks in (True, False):
        serve(speaks, LD_PRELOAD=None)


def clients_of_another_fabric():
    """Fork support at both ends, and no way between them but TCP."""
    for speaks in (True, False):
        serve(speaks, VERBENA_FABRIC=f"elsewhere-{os.getpid()}")


def clients_of_the_same_fabric():
    for speaks in (True, False):
        serve(speaks)


def both_ends_in_one_process():
    """Two threads, each at its first use."""
    client, server = connected()
    thread = threading.Thread(target=lambda: server.sendall(server.recv(10).upper()))
    thread.start()
    client.sendall(b"hi")
    assert client.recv(10) == b"HI"
    thread.join()


def both_ends_in_one_thread():
    client, server = connected()
    begun = time.monotonic()
    client.sendall(b"hi")
    assert server.recv(10) == b"hi"
    server.sendall(b"HI")
    assert client.recv(10) == b"HI"
    assert time.monotonic() - begun < 5
    client, server = connected()  # the server goes first, and its client cannot come
    server.sendall(b"first")
    client.settimeout(SECONDS)
    assert client.recv(10) == b"first"
    client.sendall(b"second")
    assert server.recv(10) == b"second"


def a_plain_server_that_waits():
    """The client speaks first: for a while it looks as if its connection were not there yet, and does not hang."""
    with plain_server() as address:
        with socket.create_connection(address) as client:
            client.sendall(b"blocking")
            assert client.recv(10) == b"BLOCKING"
        with socket.create_connection(address) as client:
            client.shutdown(socket.SHUT_WR)
            assert client.recv(10) == b""
        for wait in (poll_of, epoll_of):
            with socket.socket() as client:
                client.setblocking(False)
                client.connect_ex(address)
                time.sleep(0.05)  # TCP is through
                begun = time.monotonic()
                look = wait(client)
                assert look(0) == [], "writable before anybody knows"
                try:
                    client.send(b"too soon")
                    raise AssertionError("something was sent")
                except BlockingIOError:
                    pass
                assert time.monotonic() - begun < SOON, "it waited"
                assert look(SECONDS) == [(client.fileno(), select.EPOLLOUT)]
                assert client.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0
                client.send(b"polling")
                client.setblocking(True)
                assert client.recv(10) == b"POLLING"

        ask_asynchronously(address)


def poll_of(client):
    poll = select.poll()
    poll.register(client, select.POLLOUT)
    return lambda seconds: poll.poll(seconds * 1000)


def epoll_of(client):
    epoll = select.epoll()
    epoll.register(client, select.EPOLLOUT)
    return lambda seconds: epoll.poll(seconds)


ZEROS = """
import socket
listener = socket.create_server(("127.0.0.1", 0))
print(listener.getsockname()[1], flush=True)
connection, _ = listener.accept()
connection.sendall(bytes(4))
connection.sendall(connection.recv(10).upper())
"""


def a_plain_server_that_begins_with_zeros():
    """As rdma-core's library would."""
    server = other_process(ZEROS, LD_PRELOAD=None)
    with server.stdout, socket.create_connection((HERE[0], int(server.stdout.readline())), timeout=SECONDS) as client:
        client.sendall(b"hello")
        assert receive_all(client) == bytes(4) + b"HELLO"
    server.wait(SECONDS)


def a_client_that_ends_its_side_meanwhile():
    """The server's word is there already: it is none of the data."""
    client, server = connected()
    thread = threading.Thread(target=lambda: (server.sendall(pattern(300_000)), server.close()))
    thread.start()
    time.sleep(0.1)
    client.shutdown(socket.SHUT_WR)
    client.settimeout(SECONDS)
    assert receive_all(client) == pattern(300_000)
    thread.join()


def added_while_another_thread_waits():
    """The wait has no end of its own: the set brings the connection's."""
    with plain_server() as address, select.epoll() as epoll, socket.socket() as client:
        found = []
        thread = threading.Thread(target=lambda: found.extend(epoll.poll()), daemon=True)
        thread.start()
        time.sleep(0.1)
        client.setblocking(False)
        client.connect_ex(address)
        epoll.register(client, select.EPOLLOUT)
        thread.join(SECONDS)
        assert found == [(client.fileno(), select.EPOLLOUT)], found


def refused_without_waiting():
    """The error is there for the program to take."""
    with socket.create_server(HERE) as listener:
        address = listener.getsockname()
    for wait in (poll_of, epoll_of):
        with socket.socket() as client:
            client.setblocking(False)
            client.connect_ex(address)
            assert wait(client)(SECONDS)[0][1] & select.EPOLLERR
            assert client.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == errno.ECONNREFUSED


def a_silent_peer_beside_others():
    """Who waits for a peer that says nothing keeps no other connection waiting."""
    with plain_server() as address:
        silent = socket.create_connection(address)
        threading.Thread(target=lambda: silent.recv(10), daemon=True).start()
        time.sleep(0.1)
        begun = time.monotonic()
        for _ in range(3):
            both_ends_in_one_process()
        assert time.monotonic() - begun < 10
        silent.sendall(b"at last")


ONE_WAY = """
import socket, sys
client = socket.create_connection(("127.0.0.1", int(sys.argv[1])), timeout=30)
client.sendall(b"x" * 1_000_000)
if sys.argv[2] == "closes":
    client.close()
"""


def receive_slowly(listener):
    """The client has closed before most of it is read, and has read no word of the server's."""
    with listener.accept()[0] as server:
        time.sleep(0.49)  # the client's patience ends while the server's word is under way
        size = 0
        while piece := server.recv(1 << 16):
            size += len(piece)
            time.sleep(0.0005)
    assert size == 1_000_000, size


def clients_that_only_write():
    for changes in ({}, {"VERBENA_FABRIC": f"elsewhere-{os.getpid()}"}):
        for ends in ("closes", "exits") * 2:
            with socket.create_server(HERE) as listener:
                client = other_process(ONE_WAY, listener.getsockname()[1], ends, **changes)
                receive_slowly(listener)
                client.communicate(timeout=SECONDS)


BEGINS_AS_A_WORD = """
import socket
listener = socket.create_server(("127.0.0.1", 0))
print(listener.getsockname()[1], flush=True)
for _ in range(2):
    connection, _ = listener.accept()
    connection.sendall(b"\\xf6")
    connection.recv(10)
"""


def a_plain_server_that_begins_as_a_word():
    """And waits for an answer."""
    server = other_process(BEGINS_AS_A_WORD, LD_PRELOAD=None)
    address = (HERE[0], int(server.stdout.readline()))
    try:
        with socket.create_connection(address) as client:
            look = select.poll()
            look.register(client, select.POLLIN)
            heard = []
            threading.Thread(target=lambda: heard.extend(look.poll(5000)), daemon=True).start()
            time.sleep(2)
            assert heard == [(client.fileno(), select.POLLIN)], heard
            assert client.recv(10) == b"\xf6"
        with socket.create_connection(address) as client:
            heard = []
            threading.Thread(target=lambda: heard.append(client.recv(10)), daemon=True).start()
            time.sleep(2)
            assert heard == [b"\xf6"], heard
            client.sendall(b"yes")
    finally:
        server.kill()
        server.communicate()


def wait_and_look(client, kind, ended, found):
    look = kind()
    look.register(client, select.POLLIN)
    while not ended.is_set():
        events = look.poll(0.1 if kind is select.epoll else 100)
        found.extend(event for _, event in events if event & (select.POLLHUP | select.POLLERR))


def one_thread_waits_as_another_writes():
    """Which takes the connection over: it has not ended."""
    with echo_of_another_process() as address:
        for _ in range(20):
            for kind in (select.poll, select.epoll):
                client = socket.create_connection(address)
                ended, found = threading.Event(), []
                threads = [threading.Thread(target=wait_and_look, args=(client, kind, ended, found)) for _ in range(3)]
                for thread in threads:
                    thread.start()
                client.send(b"x")
                client.settimeout(SECONDS)
                assert client.recv(10) == b"x"
                ended.set()
                for thread in threads:
                    thread.join(SECONDS)
                assert not found, (kind, found)
                client.close()


def one_thread_reads_as_another_ends_its_side():
    """At any time of the take-over: the server hears of the end."""
    with echo_of_another_process() as address:
        for i in range(40):
            client = socket.create_connection(address)
            heard = []
            reader = threading.Thread(target=lambda: heard.append(client.recv(10)), daemon=True)
            reader.start()
            time.sleep(0.0005 * (i % 20))
            client.shutdown(socket.SHUT_WR)
            reader.join(5)
            assert heard == [b""], (i, heard)
            client.close()


ECHO = """
import socket, threading
listener = socket.create_server(("127.0.0.1", 0))
print(listener.getsockname()[1], flush=True)
def echo(connection):
    while data := connection.recv(100):
        connection.sendall(data)
    connection.close()
while True:
    threading.Thread(target=echo, args=(listener.accept()[0],), daemon=True).start()
"""


@contextlib.contextmanager
def echo_of_another_process():
    server = other_process(ECHO)
    try:
        yield HERE[0], int(server.stdout.readline())
    finally:
        server.kill()
        server.communicate()


def epoll_without_a_word():
    """What waits to read waits no longer, and no more often, than it was told."""
    with socket.create_server(HERE) as listener, select.epoll() as epoll:
        with socket.create_connection(listener.getsockname()) as client:
            epoll.register(client, select.EPOLLIN | select.EPOLLOUT)
            epoll.modify(client, select.EPOLLIN)
            begun, worked = time.monotonic(), time.process_time()
            assert epoll.poll(1.5) == []
            assert 1.4 < time.monotonic() - begun < 3
            assert time.process_time() - worked < 0.5, "it looked all the time"


READS_STANDARD_INPUT = "import sys; sys.stdout.buffer.write(sys.stdin.buffer.raw.read(100))"


def a_connection_passed_on_by_exec():
    """The program goes on where this one was: the server's word is none of its data."""
    with socket.create_server(HERE) as listener:
        client = socket.create_connection(listener.getsockname())
        child = subprocess.Popen([sys.executable, "-c", READS_STANDARD_INPUT], stdin=client, stdout=subprocess.PIPE)
        with listener.accept()[0] as server:
            server.sendall(b"hello")
        assert child.communicate(timeout=SECONDS)[0] == b"hello"
        client.close()


WAYS = {way.__name__: way for way in (
    clients_without_rsockets, clients_of_another_fabric, clients_of_the_same_fabric, both_ends_in_one_process,
    both_ends_in_one_thread, a_plain_server_that_waits, added_while_another_thread_waits, refused_without_waiting,
    a_silent_peer_beside_others, a_plain_server_that_begins_with_zeros, a_client_that_ends_its_side_meanwhile,
    clients_that_only_write, a_plain_server_that_begins_as_a_word, one_thread_waits_as_another_writes,
    one_thread_reads_as_another_ends_its_side, epoll_without_a_word, a_connection_passed_on_by_exec)}

if __name__ == "__main__":
    WAYS[sys.argv[1]]()
    print("done")
