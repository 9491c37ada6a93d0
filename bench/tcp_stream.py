#!/usr/bin/env python3
"""One TCP stream between two machines where iperf3 is not, in 1 MiB a call.

tcp_stream.py PORT                    receives one, and tells the sender how fast it was
tcp_stream.py PORT ADDRESS SECONDS    sends, and prints that
"""

import socket
import sys
import time

SIZE = 1 << 20


def receive(port):
    with socket.create_server(("", port)) as listener:
        stream, _ = listener.accept()
    room = bytearray(SIZE)
    total = stream.recv_into(room)
    began = time.monotonic()
    while count := stream.recv_into(room):
        total += count
    stream.sendall(f"{total / (time.monotonic() - began) / 1e9:.6f} GB/s\n".encode())


def send(port, address, seconds):
    with socket.create_connection((address, port)) as stream:
        data = bytes(SIZE)
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            stream.sendall(data)
        stream.shutdown(socket.SHUT_WR)
        print(stream.recv(100).decode(), end="")


if len(sys.argv) == 2:
    receive(int(sys.argv[1]))
else:
    send(int(sys.argv[1]), sys.argv[2], float(sys.argv[3]))
