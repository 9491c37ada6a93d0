#!/usr/bin/env python3
"""fork_ways.py NAME: ways in which connections of programs with fork support (RDMAV_FORK_SAFE=1) come about, and do not.
Ends with "done" where everything arrived; as ways.py, which see."""

import asyncio
import errno
import os
import select
import socket
import subprocess
import sys
import threading
import time

from ways import HERE, SECONDS, connected, pattern, plain_server, receive_all

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

        async def ask():
            reader, writer = await asyncio.open_connection(*address)
            writer.write(b"async")
            assert await reader.read() == b"ASYNC"
            writer.close()

        asyncio.run(asyncio.wait_for(ask(), SECONDS))


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


WAYS = {way.__name__: way for way in (
    clients_without_rsockets, clients_of_another_fabric, clients_of_the_same_fabric, both_ends_in_one_process,
    both_ends_in_one_thread, a_plain_server_that_waits, added_while_another_thread_waits, refused_without_waiting,
    a_silent_peer_beside_others, a_plain_server_that_begins_with_zeros, a_client_that_ends_its_side_meanwhile)}

if __name__ == "__main__":
    WAYS[sys.argv[1]]()
    print("done")
