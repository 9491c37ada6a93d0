#!/usr/bin/env python3
"""ways.py NAME: a way in which programs use sockets, both ends in one go. Ends with "done" where everything arrived.

preload_test.py runs each under `verbena run --sockets` and without."""

import asyncio
import contextlib
import ctypes
import errno
import fcntl
import os
import select
import selectors
import signal
import socket
import socketserver
import struct
import subprocess
import sys
import tempfile
import threading
import time

HERE = ("127.0.0.1", 0)
SECONDS = 30


def pattern(size):
    block = bytes((i * 7 + i // 256) & 255 for i in range(65536))
    return (block * (size // len(block) + 1))[:size]


def receive_all(connection):
    return b"".join(iter(lambda: connection.recv(1 << 16), b""))


def exchange(address, data):
    """Sends, says that this was all, and returns the answer."""
    with socket.create_connection(address, timeout=SECONDS) as connection:
        sender = threading.Thread(target=lambda: (connection.sendall(data), connection.shutdown(socket.SHUT_WR)))
        sender.start()
        answer = receive_all(connection)
        sender.join()
    return answer


def a_number_used_again():
    """An epoll set is closed, and its number becomes another's."""
    first = select.epoll()
    number = first.fileno()
    first.close()
    second = select.epoll()
    assert second.fileno() == number
    ends = socket.socketpair()
    second.register(ends[0], select.EPOLLIN)
    ends[1].send(b"x")
    assert second.poll(SECONDS) == [(ends[0].fileno(), select.EPOLLIN)]


def event_loop():
    async def answer(reader, writer):
        data = await reader.read()
        writer.write(data[::-1])
        await writer.drain()
        writer.close()

    async def ask(port, data):
        reader, writer = await asyncio.open_connection(HERE[0], port)
        writer.write(data)
        await writer.drain()
        writer.write_eof()
        assert await reader.read() == data[::-1]
        writer.close()

    async def all_at_once():
        server = await asyncio.start_server(answer, *HERE)
        port = server.sockets[0].getsockname()[1]
        await asyncio.wait_for(asyncio.gather(*(ask(port, pattern(200_000)) for _ in range(10))), SECONDS)

    asyncio.run(all_at_once())


def multiplexed(kind):
    """One thread echoes to several clients as far as each has room."""
    clients, data = 4, pattern(500_000)
    listener = socket.create_server(HERE)
    listener.setblocking(False)
    selector = kind()
    selector.register(listener, selectors.EVENT_READ)
    answers = []
    threads = [threading.Thread(target=lambda: answers.append(exchange(listener.getsockname(), data) == data))
               for _ in range(clients)]
    for thread in threads:
        thread.start()
    waiting, over, ended = {}, set(), 0
    deadline = time.monotonic() + SECONDS
    while ended < clients and time.monotonic() < deadline:
        for key, events in selector.select(1):
            if key.fileobj is listener:
                connection, _ = listener.accept()
                connection.setblocking(False)
                waiting[connection] = b""
                selector.register(connection, selectors.EVENT_READ)
                continue
            connection = key.fileobj
            try:
                if events & selectors.EVENT_READ:
                    piece = connection.recv(1 << 16)
                    waiting[connection] += piece
                    if not piece:
                        over.add(connection)
                if waiting[connection]:
                    waiting[connection] = waiting[connection][connection.send(waiting[connection]):]
            except BlockingIOError:
                pass
            if connection in over and not waiting[connection]:
                selector.unregister(connection)
                connection.close()
                ended += 1
                continue
            wanted = 0 if connection in over else selectors.EVENT_READ
            selector.modify(connection, wanted | (selectors.EVENT_WRITE if waiting[connection] else 0))
    for thread in threads:
        thread.join(SECONDS)
    assert answers == [True] * clients, (answers, ended)


def connecting_without_waiting():
    """Many connections are under way at once; then one to nobody."""
    count = 20
    listener = socket.create_server(HERE, backlog=64)
    listener.setblocking(False)
    clients = [socket.socket() for _ in range(count)]
    poll = select.poll()
    poll.register(listener, select.POLLIN)
    for client in clients:
        client.setblocking(False)
        assert client.connect_ex(listener.getsockname()) in (0, errno.EINPROGRESS)
        poll.register(client, select.POLLOUT)
    connected, accepted = set(), []
    deadline = time.monotonic() + SECONDS
    while (len(connected) < count or len(accepted) < count) and time.monotonic() < deadline:
        for number, _ in poll.poll(1000):
            if number != listener.fileno():
                connected.add(number)
                poll.unregister(number)
                continue
            try:
                while True:
                    accepted.append(listener.accept()[0])
            except BlockingIOError:
                pass
    for client in clients:
        assert client.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0
        client.setblocking(True)
        client.sendall(b"%d" % client.getsockname()[1])
        client.shutdown(socket.SHUT_WR)
    for connection in accepted:
        connection.setblocking(True)
        assert int(receive_all(connection)) == connection.getpeername()[1]
    address = listener.getsockname()
    listener.close()
    with socket.socket() as client:
        client.setblocking(False)
        client.connect_ex(address)
        assert select.select([], [client], [], SECONDS)[1]
        assert client.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == errno.ECONNREFUSED


def a_file():
    data, arrived = pattern(3_000_000), []
    listener = socket.create_server(HERE)
    reader = threading.Thread(target=lambda: arrived.append(receive_all(listener.accept()[0])))
    reader.start()
    with socket.create_connection(listener.getsockname()) as client, tempfile.TemporaryFile() as file:
        file.write(data)
        file.seek(0)
        client.sendfile(file)
    reader.join()
    assert arrived == [data]


def duplicates():
    listener = socket.create_server(HERE)
    client = socket.create_connection(listener.getsockname())
    server, _ = listener.accept()
    copy = client.dup()
    client.close()
    copy.sendall(b"copy")
    assert server.recv(10) == b"copy"
    copy.close()
    assert server.recv(10) == b""


def connected():
    with socket.create_server(HERE) as listener:
        client = socket.create_connection(listener.getsockname(), timeout=SECONDS)
        server, _ = listener.accept()
        server.settimeout(SECONDS)
        return client, server


def a_duplicate_onto_another():
    """dup2 ends what the number was, if there is something to duplicate."""
    libc = ctypes.CDLL(None, use_errno=True)
    client, server = connected()
    number = client.fileno()
    assert (libc.dup2(-1, number), ctypes.get_errno()) == (-1, errno.EBADF)
    assert (libc.dup3(server.fileno(), number, 1), ctypes.get_errno()) == (-1, errno.EINVAL)
    client.sendall(b"alive")
    assert server.recv(10) == b"alive"
    out, into = os.pipe()
    os.dup2(out, number)
    assert server.recv(10) == b""
    os.write(into, b"pipe")
    assert os.read(number, 10) == b"pipe"
    other, peer = connected()
    os.dup2(other.fileno(), number)
    other.close()
    client.sendall(b"other")
    assert peer.recv(10) == b"other"
    client.close()
    assert peer.recv(10) == b""


def duplicates_of_an_epoll_set():
    client, server = connected()
    first = select.epoll()
    for copy in (os.dup(first.fileno()), os.dup2(first.fileno(), 100), fcntl.fcntl(first, fcntl.F_DUPFD_CLOEXEC, 3)):
        other = select.epoll.fromfd(copy)
        other.register(server, select.EPOLLIN | select.EPOLLET)
        assert first.poll(0) == []
        client.sendall(b"x")
        assert first.poll(SECONDS) == [(server.fileno(), select.EPOLLIN)]
        first.close()
        other.modify(server, select.EPOLLIN)
        assert other.poll(SECONDS) == [(server.fileno(), select.EPOLLIN)]
        server.recv(1)
        other.unregister(server)
        first = other
    first.close()


def closed_in_other_ways():
    """The peer hears of it, and the number is free for a file."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.fdopen.restype, libc.fclose.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
    calls = {"x86_64": (3, 436), "aarch64": (57, 436)}.get(os.uname().machine)
    ways = [lambda fd: os.closerange(fd, fd + 1), lambda fd: libc.fclose(libc.fdopen(fd, b"r+"))]
    if hasattr(libc, "close_range"):
        ways += [lambda fd: libc.close_range(fd, fd, 0)]
    if calls:
        ways += [lambda fd: libc.syscall(calls[0], fd), lambda fd: libc.syscall(calls[1], fd, fd, 0)]
    for close in ways:
        client, server = connected()
        number = client.detach()
        close(number)
        assert server.recv(10) == b""
        with tempfile.TemporaryFile(buffering=0) as file:
            os.dup2(file.fileno(), number)
            file.write(b"file")
            file.seek(0)
            assert os.read(number, 10) == b"file"
        libc.syscall(calls[0], number) if calls else os.close(number)
        server.close()


def a_child_that_closes_everything():
    """subprocess makes it by vfork(2), where it can: its descriptors are its own, its memory is not."""
    client, server = connected()
    with select.epoll() as epoll:
        epoll.register(server, select.EPOLLIN)
        assert subprocess.run(["true"], stdin=client, close_fds=True).returncode == 0
        client.sendall(b"still there")
        assert epoll.poll(SECONDS) == [(server.fileno(), select.EPOLLIN)]
        assert server.recv(20) == b"still there"
        client.close()
        assert server.recv(20) == b""


def forking():
    """A child of the server's for each connection (RDMAV_FORK_SAFE: rsocket(7)), the clients in a process of their own."""
    class Upper(socketserver.StreamRequestHandler):
        def handle(self):
            for line in self.rfile:
                self.wfile.write(line.upper())

    out, into = os.pipe()
    clients = os.fork()
    if clients == 0:
        address = (HERE[0], int(os.read(out, 16)))
        text = b"".join(b"line %d\n" % i for i in range(20_000))
        for _ in range(5):
            assert exchange(address, text) == text.upper()
        os._exit(0)
    server = socketserver.ForkingTCPServer(HERE, Upper)
    os.write(into, b"%d" % server.server_address[1])
    for _ in range(5):
        server.handle_request()
    assert os.waitpid(clients, 0)[1] == 0
    server.server_close()


def signals_of_a_closed_connection():
    """SIGPIPE, where a program does not say that it wants none."""
    count = []
    signal.signal(signal.SIGPIPE, lambda *_: count.append(1))
    listener = socket.create_server(HERE)
    client = socket.create_connection(listener.getsockname())
    server, _ = listener.accept()
    client.shutdown(socket.SHUT_WR)

    def signals(send):
        before = len(count)
        try:
            send()
        except BrokenPipeError:
            time.sleep(0)  # handlers run between two steps of the interpreter
            return len(count) - before
        raise AssertionError("nothing failed")

    number = client.fileno()
    for send in (lambda: client.send(b"x"), lambda: client.sendmsg([b"x"]), lambda: os.write(number, b"x"),
                 lambda: os.writev(number, [b"x"])):
        assert signals(send) == 1
    assert signals(lambda: client.send(b"x", socket.MSG_NOSIGNAL)) == 0
    server.close()


PLAIN = """
import socket, sys
listener = socket.create_server(("127.0.0.1", int(sys.argv[1])))
print(listener.getsockname()[1], flush=True)
while True:
    connection, _ = listener.accept()
    try:
        connection.sendall(connection.recv(10).upper())
    except OSError:  # one that has gone again
        pass
    connection.close()
"""


def plain_server(port=0):
    """A peer that knows no rsockets, whatever this program does; its address."""
    return server_of({name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}, port)


@contextlib.contextmanager
def server_of(environment, port=0):
    server = subprocess.Popen([sys.executable, "-c", PLAIN, str(port)], stdout=subprocess.PIPE, text=True, env=environment)
    try:
        yield HERE[0], int(server.stdout.readline())
    finally:
        server.kill()
        server.wait()
        server.stdout.close()


def closed_while_it_connects():
    """The call goes on with what it began with, and leaves the number to whoever gets it next."""
    over_rsockets = "librspreload" in os.environ.get("LD_PRELOAD", "")
    listener = socket.create_server(HERE, backlog=1)
    address, ended = listener.getsockname(), []
    # To which the number of a rsocket that cannot connect would be connected.
    with plain_server(address[1] if over_rsockets else 0):
        name = struct.pack("=H", socket.AF_INET) + struct.pack("!H4s8x", address[1], socket.inet_aton(address[0]))
        waiting = [socket.socket() for _ in range(6)]
        for client in waiting[1:]:
            client.setblocking(False)
            client.connect_ex(address)
        number = waiting[0].detach()
        libc = ctypes.CDLL(None, use_errno=True)
        thread = threading.Thread(target=lambda: ended.append(libc.connect(number, name, len(name))), daemon=True)
        thread.start()
        time.sleep(0.3)  # it is in the call, most likely
        os.close(number)
        with socket.socket() as other:
            assert other.fileno() == number
            listener.close()
            if over_rsockets:  # a kernel tries for minutes
                thread.join(SECONDS)
                assert ended == [-1], ended
            with socket.create_server(HERE) as another:
                other.connect(another.getsockname())
                another.accept()[0].close()
                assert other.recv(10) == b""


def ask_asynchronously(address):
    """By asyncio, of a server that answers in capitals."""
    async def ask():
        reader, writer = await asyncio.open_connection(*address)
        writer.write(b"async")
        assert await reader.read() == b"ASYNC"
        writer.close()

    asyncio.run(asyncio.wait_for(ask(), SECONDS))


def a_plain_server_in_an_epoll_set():
    """Connections to it without waiting."""
    with plain_server() as address:
        for registered_before in (True, False):
            with select.epoll() as epoll, socket.socket() as client:
                client.setblocking(False)
                number = client.fileno()
                if registered_before:
                    epoll.register(client, select.EPOLLOUT)
                assert client.connect_ex(address) in (0, errno.EINPROGRESS)
                if not registered_before:
                    epoll.register(client, select.EPOLLOUT)
                assert epoll.poll(SECONDS) == [(number, select.EPOLLOUT)]
                assert client.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0
                client.send(b"plain")
                epoll.modify(client, select.EPOLLIN)
                assert epoll.poll(SECONDS) == [(number, select.EPOLLIN)]
                assert client.recv(10) == b"PLAIN"
                epoll.unregister(client)

        ask_asynchronously(address)


def times_to_wait():
    """select tells what was left of its time; no call waits less than nothing."""
    libc = ctypes.CDLL(None, use_errno=True)
    client, server = connected()
    number, bits = server.fileno(), ctypes.sizeof(ctypes.c_ulong) * 8
    entry = ctypes.create_string_buffer(struct.pack("ihh", number, select.POLLIN, 0))
    event = ctypes.create_string_buffer(16)
    epoll = select.epoll()
    epoll.register(server, select.EPOLLIN)

    def selecting(call, *time):
        wanted = (ctypes.c_ulong * 16)()
        wanted[number // bits] = 1 << number % bits
        return call(number + 1, wanted, None, None, *time)

    def pair(first, second):
        return (ctypes.c_long * 2)(first, second)

    pwait2 = [lambda time: libc.epoll_pwait2(epoll.fileno(), event, 1, time, None)] if hasattr(libc, "epoll_pwait2") else []
    calls = [lambda time: libc.ppoll(entry, ctypes.c_ulong(1), time, None), *pwait2,
             lambda time: selecting(libc.pselect, time, None)]
    for call in [lambda time: selecting(libc.select, time), *calls]:
        assert (call(pair(-1, 0)), ctypes.get_errno()) == (-1, errno.EINVAL)
        assert call(pair(0, 1000)) == 0
    for call in calls:
        assert (call(pair(0, 1_000_000_000)), ctypes.get_errno()) == (-1, errno.EINVAL)
    left = pair(0, 20_000)
    assert selecting(libc.select, left) == 0 and list(left) == [0, 0], list(left)
    client.sendall(b"x")
    left = pair(SECONDS, 0)
    assert selecting(libc.select, left) == 1 and SECONDS - 10 <= left[0] < SECONDS, list(left)
    for call in calls:
        assert call(pair(SECONDS, 0)) == 1
    assert not pwait2 or struct.unpack("=IQ", event.raw[:12])[1] & 0xffffffff == number or os.uname().machine != "x86_64"


def signals_while_waiting():
    """ppoll, pselect and epoll_pwait let a signal through while they wait, with nothing ready, and at no other time."""
    libc = ctypes.CDLL(None, use_errno=True)
    listener = socket.create_server(HERE)
    epoll = select.epoll()
    epoll.register(listener, select.EPOLLIN)
    entry = ctypes.create_string_buffer(struct.pack("ihh", listener.fileno(), select.POLLIN, 0))
    event, no_signal = ctypes.create_string_buffer(16), (ctypes.c_ulong * 16)()
    bits = ctypes.sizeof(ctypes.c_ulong) * 8

    def pselect(time):
        wanted = (ctypes.c_ulong * 16)()
        wanted[listener.fileno() // bits] = 1 << listener.fileno() % bits
        return libc.pselect(listener.fileno() + 1, wanted, None, None, time, no_signal)

    def ppoll(time):
        return libc.ppoll(entry, ctypes.c_ulong(1), time, no_signal)

    def epoll_pwait(time):
        return libc.epoll_pwait(epoll.fileno(), event, 1, time[0] * 1000, no_signal)

    def pending():
        return signal.SIGUSR1 in signal.sigpending()

    signal.signal(signal.SIGUSR1, lambda *_: None)
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
    at_once, later = (ctypes.c_long * 2)(0, 0), (ctypes.c_long * 2)(SECONDS, 0)
    for wait, time in ((ppoll, later), (ppoll, at_once), (pselect, later), (pselect, at_once), (epoll_pwait, later)):
        signal.raise_signal(signal.SIGUSR1)
        assert (wait(time), ctypes.get_errno(), pending()) == (-1, errno.EINTR, False), (wait, time[0])
        assert wait(at_once) == 0, wait
    with socket.create_connection(listener.getsockname(), timeout=SECONDS):
        select.select([listener], [], [])
        signal.raise_signal(signal.SIGUSR1)
        for wait in (ppoll, pselect, epoll_pwait):
            assert (wait(later), pending()) == (1, True), wait


def polling_in_a_handler():
    """A signal handler that runs while ppoll waits polls others, and more of them."""
    libc = ctypes.CDLL(None, use_errno=True)
    listener, other = socket.create_server(HERE), socket.create_server(HERE)
    entry = ctypes.create_string_buffer(struct.pack("ihh", listener.fileno(), select.POLLIN, 0))
    many = ctypes.create_string_buffer(struct.pack("ihh", other.fileno(), select.POLLIN, 0) * 100)
    found, no_signal = [], (ctypes.c_ulong * 16)()
    handler = ctypes.CFUNCTYPE(None, ctypes.c_int)(lambda _: found.append(libc.poll(many, ctypes.c_ulong(100), 0)))
    libc.signal(signal.SIGUSR1, handler)
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
    later = (ctypes.c_long * 2)(SECONDS, 0)
    for _ in range(3):
        signal.raise_signal(signal.SIGUSR1)
        assert (libc.ppoll(entry, ctypes.c_ulong(1), later, no_signal), ctypes.get_errno()) == (-1, errno.EINTR)
    assert found == [0, 0, 0], found
    with socket.create_connection(listener.getsockname(), timeout=SECONDS):
        assert libc.ppoll(entry, ctypes.c_ulong(1), later, no_signal) == 1
        assert struct.unpack("ihh", entry.raw[:8])[2] == select.POLLIN


def a_port_for_two():
    """SO_REUSEPORT: a second listener, and connections that somebody answers."""
    with contextlib.ExitStack() as all_of_them:
        listeners = [all_of_them.enter_context(socket.create_server(HERE, reuse_port=True))]
        address = listeners[0].getsockname()
        listeners.append(all_of_them.enter_context(socket.create_server(address, reuse_port=True)))
        assert listeners[1].getsockname() == address
        client = all_of_them.enter_context(socket.create_connection(address, timeout=SECONDS))
        ready = select.select(listeners, [], [], SECONDS)[0]
        server = all_of_them.enter_context(ready[0].accept()[0])
        client.sendall(b"one of two")
        assert server.recv(20) == b"one of two"
        with socket.socket() as third:  # without the option
            try:
                third.bind(address)
                raise AssertionError("bound")
            except OSError as error:
                assert error.errno == errno.EADDRINUSE, error


def too_many_pieces():
    """As the kernel says it."""
    client, server = connected()
    for call, pieces, expected in ((os.writev, [b"x"], errno.EINVAL), (os.readv, [bytearray(1)], errno.EINVAL)):
        try:
            call(client.fileno(), pieces * 1025)
            raise AssertionError("so many?")
        except OSError as error:
            assert error.errno == expected, error
    os.writev(client.fileno(), [b"x"] * 1024)
    client.close()
    assert len(receive_all(server)) == 1024


WAYS = {
    "a_port_for_two": a_port_for_two,
    "too_many_pieces": too_many_pieces,
    "a_number_used_again": a_number_used_again,
    "event_loop": event_loop,
    "select": lambda: multiplexed(selectors.SelectSelector),
    "poll": lambda: multiplexed(selectors.PollSelector),
    "epoll": lambda: multiplexed(selectors.EpollSelector),
    "connecting_without_waiting": connecting_without_waiting,
    "a_file": a_file,
    "duplicates": duplicates,
    "a_duplicate_onto_another": a_duplicate_onto_another,
    "duplicates_of_an_epoll_set": duplicates_of_an_epoll_set,
    "closed_in_other_ways": closed_in_other_ways,
    "a_child_that_closes_everything": a_child_that_closes_everything,
    "closed_while_it_connects": closed_while_it_connects,
    "forking": forking,
    "signals_of_a_closed_connection": signals_of_a_closed_connection,
    "times_to_wait": times_to_wait,
    "signals_while_waiting": signals_while_waiting,
    "polling_in_a_handler": polling_in_a_handler,
    "a_plain_server_in_an_epoll_set": a_plain_server_in_an_epoll_set,
}

if __name__ == "__main__":
    WAYS[sys.argv[1]]()
    print("done")
