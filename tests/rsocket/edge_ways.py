#!/usr/bin/env python3
"""edge_ways.py NAME: what programs meet at the edges: no descriptors left, the last bytes of a connection, options of the
kernel's. Ends with "done" where all is as with TCP; as ways.py, which see."""

import contextlib
import ctypes
import errno
import os
import resource
import select
import socket
import struct
import subprocess
import sys
import threading

from ways import HERE, SECONDS, connected, pattern, receive_all, server_of


@contextlib.contextmanager
def no_descriptors(limit, free=0):
    """All but `free` of them are taken."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, before[1]))
    kept = []
    with contextlib.suppress(OSError):
        while True:
            kept.append(os.open("/dev/null", os.O_RDONLY))
    for _ in range(free):
        os.close(kept.pop())
    yield
    for number in kept:
        os.close(number)
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def error_of(call):
    try:
        call()
    except OSError as error:
        return error.errno
    return 0


def none_to_connect_with():
    """The program hears that it has none, and not that nobody listens."""
    errors = []

    def connect(address):
        with socket.socket() as client:
            client.connect(address)

    with server_of(os.environ) as address:  # which has descriptors: it would refuse indeed
        for free in range(12):  # how many a connection needs is not the program's to know
            with no_descriptors(256, free):
                errors.append(error_of(lambda: connect(address)))
    assert errors[0] == errno.EMFILE and set(errors) <= {0, errno.EMFILE} and errors == sorted(errors, reverse=True), errors


def none_to_accept_with():
    """The connection waits until there is one."""
    listener = socket.create_server(HERE)
    client = socket.create_connection(listener.getsockname(), timeout=SECONDS)
    client.sendall(b"patient")
    assert select.select([listener], [], [], SECONDS)[0]
    with no_descriptors(256):
        assert error_of(listener.accept) == errno.EMFILE
        assert select.select([listener], [], [], SECONDS)[0], "it is still there"
        assert error_of(listener.accept) == errno.EMFILE
    with listener.accept()[0] as server:
        assert server.recv(100) == b"patient"


CLIENT = """
import socket, sys
client = socket.create_connection(("127.0.0.1", int(sys.argv[1])), timeout=30)
client.sendall(b"patient")
sys.stdout.buffer.write(client.recv(100))
"""


def none_while_a_client_comes():
    """Nobody has called accept, and there is none even to answer the client with."""
    earlier = connected()
    listener = socket.create_server(HERE)
    ready, go = os.pipe()
    client = subprocess.Popen([sys.executable, "-c", f"import os; os.read({ready}, 1)\n" + CLIENT,
                               str(listener.getsockname()[1])], stdout=subprocess.PIPE, pass_fds=[ready])
    with no_descriptors(256):
        os.write(go, b"x")
        assert select.select([listener], [], [], SECONDS)[0]
        assert error_of(listener.accept) == errno.EMFILE
    with listener.accept()[0] as server:
        assert server.recv(100) == b"patient"
        server.sendall(b"served")
    assert client.communicate(timeout=SECONDS)[0] == b"served"
    del earlier


def what_came_before_the_reader_stopped():
    """It has come, whether or not somebody has looked."""
    for how in (socket.SHUT_RD, socket.SHUT_RDWR):
        client, server = connected()
        client.sendall(b"the last words")
        client.close()
        server.shutdown(how)
        assert receive_all(server) == b"the last words"


def a_writer_whose_reader_leaves():
    """The bytes that went are counted, and why no more did is told behind them, once."""
    client, server = connected()
    client.sendall(b"unread")
    assert select.select([server], [], [], SECONDS)[0]

    def leave():
        while len(server.recv(1 << 20, socket.MSG_PEEK)) < 100_000:  # the writer is on its way, and waits soon
            pass
        server.close()

    leaver = threading.Thread(target=leave)
    leaver.start()
    data = pattern(64 << 20)
    assert 0 < client.send(data) < len(data)
    leaver.join()
    assert error_of(lambda: client.send(b"x", socket.MSG_NOSIGNAL)) == errno.ECONNRESET
    assert error_of(lambda: client.send(b"x", socket.MSG_NOSIGNAL)) == errno.EPIPE


def who_may_bind():
    """As with TCP: what is bound once is bound for good, and the first ports are root's; one may listen without."""
    with socket.socket() as listener:
        listener.bind(HERE)
        assert error_of(lambda: listener.bind(listener.getsockname())) == errno.EINVAL
    with socket.socket() as listener:
        listener.listen()
        with socket.socket() as other:
            assert error_of(lambda: other.bind(("", listener.getsockname()[1]))) == errno.EADDRINUSE
        with socket.create_connection((HERE[0], listener.getsockname()[1]), timeout=SECONDS):
            listener.accept()[0].close()
    if os.getuid() == 0 and os.fork() == 0:
        os.seteuid(65534)
        with socket.socket() as listener:
            os._exit(error_of(lambda: listener.bind((HERE[0], 80))) != errno.EACCES)
    elif os.getuid() == 0:
        assert os.wait()[1] == 0


def nothing_of_a_waiting_accept_is_seen():
    """Neither by programs that are started meanwhile, nor by who takes a number for a file of its own."""
    def own():
        return {number for number in os.listdir("/proc/self/fd") if int(number) < 100 and os.path.exists(f"/proc/self/fd/{number}")}

    listener = socket.create_server(HERE)
    before, accepted = own(), []
    thread = threading.Thread(target=lambda: accepted.append(listener.accept()[0]), daemon=True)
    thread.start()
    while not (reserved := own() - before) and "librspreload" in os.environ.get("LD_PRELOAD", ""):
        pass
    file = os.open("/dev/null", os.O_RDONLY)
    for number in reserved:
        assert not os.get_inheritable(int(number))
        os.dup2(file, int(number))
    with socket.create_connection(listener.getsockname(), timeout=SECONDS) as client:
        client.sendall(b"x")
        thread.join()
        assert accepted[0].recv(1) == b"x"
    for number in reserved:
        assert os.readlink(f"/proc/self/fd/{number}") == "/dev/null"


def entries_that_are_switched_off():
    """poll(2) ignores negative numbers, whatever they are."""
    client, server = connected()
    client.sendall(b"x")
    assert select.select([server], [], [], SECONDS)[0]
    entries = struct.pack("=" + "ihh" * 3, server.fileno(), select.POLLIN, 0, ~1, select.POLLIN, 7, -1, select.POLLIN, 7)
    buffer = ctypes.create_string_buffer(entries, len(entries))
    assert ctypes.CDLL(None).poll(buffer, ctypes.c_ulong(3), 1000) == 1
    assert struct.unpack("=" + "ihh" * 3, buffer.raw)[2::3] == (select.POLLIN, 0, 0)


def a_port_of_another():
    """One that a server without rsockets has is not free; one that the system chooses is free for everybody."""
    plain = ("import socket, sys\nlistener = socket.create_server(('127.0.0.1', int(sys.argv[1])))\n"
             "print(listener.getsockname()[1], flush=True)\nsys.stdin.read()")

    def start(port):
        return subprocess.Popen([sys.executable, "-c", plain, str(port)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                stderr=subprocess.DEVNULL, env={name: value for name, value in os.environ.items() if name != "LD_PRELOAD"})

    with start(0) as other:
        port = int(other.stdout.readline())
        with socket.socket() as listener:
            assert error_of(lambda: listener.bind((HERE[0], port))) == errno.EADDRINUSE
            listener.bind(HERE)  # another one will do
            listener.listen()
            with start(listener.getsockname()[1]) as late:
                assert late.communicate()[0] == b"" and late.returncode
            with socket.create_connection(listener.getsockname(), timeout=SECONDS) as client:
                client.sendall(b"x")
                assert listener.accept()[0].recv(1) == b"x"
        other.communicate()


def data_with_the_request():
    """MSG_FASTOPEN connects, too."""
    listener = socket.create_server(HERE)
    with socket.socket() as client:
        assert client.sendto(b"at once", socket.MSG_FASTOPEN, listener.getsockname()) == 7
        with listener.accept()[0] as server:
            assert server.recv(100) == b"at once"
    with socket.socket() as client:
        assert client.sendmsg([b"at ", b"once"], [], socket.MSG_FASTOPEN, listener.getsockname()) == 7
        with listener.accept()[0] as server:
            assert server.recv(100) == b"at once"


class Message(ctypes.Structure):
    """mmsghdr of one piece."""
    _fields_ = [("name", ctypes.c_void_p), ("name_length", ctypes.c_uint32), ("pieces", ctypes.c_void_p),
                ("count", ctypes.c_size_t), ("control", ctypes.c_void_p), ("control_length", ctypes.c_size_t),
                ("flags", ctypes.c_size_t), ("length", ctypes.c_size_t)]


def several_messages():
    """sendmmsg, recvmmsg, pwritev2 and preadv2."""
    libc = ctypes.CDLL(None, use_errno=True)
    client, server = connected()

    def move(call, end, sizes, *more):
        buffers = [ctypes.create_string_buffer(size) for size in sizes]
        pieces = [(ctypes.c_size_t * 2)(ctypes.addressof(buffer), len(buffer)) for buffer in buffers]
        messages = (Message * len(sizes))(*(Message(pieces=ctypes.addressof(piece), count=1) for piece in pieces))
        for buffer, letter in zip(buffers, b"abcdefgh"):
            buffer[:] = bytes([letter]) * len(buffer)
        moved = call(end.fileno(), messages, len(sizes), *more)
        return moved, [(message.length, buffer.raw[:message.length]) for message, buffer in zip(messages, buffers)]

    assert move(libc.sendmmsg, client, [3, 5], 0)[0] == 2
    while len(server.recv(8, socket.MSG_PEEK)) < 8:
        pass
    moved, got = move(libc.recvmmsg, server, [2, 4, 4], socket.MSG_DONTWAIT, None)
    assert moved == 3 and got == [(2, b"aa"), (4, b"abbb"), (2, b"bb")], (moved, got)
    assert move(libc.recvmmsg, server, [2], socket.MSG_DONTWAIT, None)[0] == -1 and ctypes.get_errno() == errno.EAGAIN
    assert move(libc.sendmmsg, client, [3], 0)[0] == 1
    assert move(libc.recvmmsg, server, [8, 8], 0x10000, None)[0] == 1  # MSG_WAITFORONE
    assert os.pwritev(client.fileno(), [b"by ", b"vector"], -1, 0) == 9
    assert select.select([server], [], [], SECONDS)[0]
    pieces = [bytearray(4), bytearray(20)]
    assert os.preadv(server.fileno(), pieces, -1, os.RWF_NOWAIT) == 9 and pieces[0] + pieces[1][:5] == b"by vector"
    assert error_of(lambda: os.preadv(server.fileno(), pieces, -1, os.RWF_NOWAIT)) == errno.EAGAIN
    assert error_of(lambda: os.preadv(server.fileno(), pieces, 0, os.RWF_NOWAIT)) == errno.ESPIPE


def from_a_pipe():
    """By splice, or as programs go on where that is not to be had."""
    client, server = connected()
    out, into = os.pipe()
    os.write(into, b"through a pipe")
    try:
        assert os.splice(out, client.fileno(), 100) == 14
    except OSError as error:
        assert error.errno == errno.EINVAL, error
        client.sendall(os.read(out, 100))
    assert select.select([server], [], [], SECONDS)[0]
    assert server.recv(100) == b"through a pipe"


def word_from_the_error_queue():
    """Who is let send without a copy hears when the bytes are free."""
    client, server = connected()
    so_zerocopy, msg_zerocopy = 60, 0x4000000
    if error := error_of(lambda: client.setsockopt(socket.SOL_SOCKET, so_zerocopy, 1)):
        assert error == errno.EOPNOTSUPP, error
    else:
        client.send(b"x", msg_zerocopy)
        poll = select.poll()
        poll.register(client, 0)
        assert poll.poll(SECONDS * 1000)
        assert client.recvmsg(1, 1000, socket.MSG_ERRQUEUE)[1]
    server.close()


WAYS = {way.__name__: way for way in (
    none_to_connect_with, none_to_accept_with, none_while_a_client_comes, what_came_before_the_reader_stopped,
    a_writer_whose_reader_leaves, who_may_bind,
    nothing_of_a_waiting_accept_is_seen, entries_that_are_switched_off, a_port_of_another, data_with_the_request, several_messages, from_a_pipe, word_from_the_error_queue)}

if __name__ == "__main__":
    WAYS[sys.argv[1]]()
    print("done")
