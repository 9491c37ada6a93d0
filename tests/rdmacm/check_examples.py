#!/usr/bin/env python3
"""Builds the examples with their own Makefile against the two libraries, runs each pair, and compares every line.

    check_examples.py SOURCE_DIRECTORY LIBRARY_DIRECTORY

VERBENA_DAEMON names the daemon; the run has a fabric of its own.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "clients"))

from addresses import is_own  # noqa: E402

TIMEOUT = 60
HOSTS = ["127.0.0.1", "::1", "localhost"]

# (server command, client command, server's lines after the port, client's lines); a set where the order is open
PAIRS = [
    (["hello_server"], ["hello_client"],
     ["connected", "received: hello, server", "disconnected"],
     ["connected", "received: hello, client", "disconnected"]),
    (["one_sided", "server"], ["one_sided", "client"],
     ["the client wrote: hello from the other side"],
     ["read back: hello from the other side"]),
    (["shared_receive", "server"], ["shared_receive", "client"],
     {"connection 1: hello by connection 1", "connection 2: hello by connection 2"},
     ["connected 2 times"]),
    (["refused", "server"], ["refused", "client"],
     ["rejected one", "our receive: Work Request Flushed Error"],
     ["RDMA_CM_EVENT_REJECTED, status 28: come back with a ticket", "the READ: remote access error",
      "the SEND behind it: Work Request Flushed Error"]),
]


# `why` alone; the words between the numbers are those of the reasons.
WHY = [
    r"call: Invalid argument",
    r"  ah_attr\.is_global is 0; RoCE needs a GRH .*",
    r"completion: local protection error",
    r"  send: the buffer is not inside the lkey's region \(lkey 0x\w+, address 0x\w+, 200 bytes; "
    r"the region is 0x\w+, 4096 bytes, access 0x1\)",
    r"event: RDMA_CM_EVENT_REJECTED, status 8",
    r"  127\.0\.0\.1:7471 rejected with reason 8: nothing listens there .*; this host has no listener",
]


def run_why(directory, environment):
    result = subprocess.run([str(directory / "why")], env=environment, stdout=subprocess.PIPE, text=True, timeout=TIMEOUT)
    lines = result.stdout.splitlines()
    if result.returncode:
        return f"exit status {result.returncode}"
    if len(lines) != len(WHY) or not all(map(re.fullmatch, WHY, lines)):
        return f"printed {result.stdout!r}"
    return None


def run_pair(directory, environment, host, pair):
    server_command, client_command, server_lines, client_lines = pair
    server_command = [str(directory / server_command[0])] + server_command[1:]
    client_command = [str(directory / client_command[0])] + client_command[1:]
    server = subprocess.Popen(server_command, env=environment, stdout=subprocess.PIPE, text=True)
    try:
        listening = re.fullmatch(r"listening on port (\d+)\n", server.stdout.readline())
        if not listening:
            return "the server told no port"
        client = subprocess.run(client_command + [host, listening[1]], env=environment, stdout=subprocess.PIPE,
                                text=True, timeout=TIMEOUT)
        output, _ = server.communicate(timeout=TIMEOUT)
        if client.returncode or server.returncode:
            return f"exit status {client.returncode} (client), {server.returncode} (server)"
        if client.stdout.splitlines() != client_lines:
            return f"the client printed {client.stdout!r}"
        if type(server_lines)(output.splitlines()) != server_lines:
            return f"the server printed {output!r}"
        return None
    except subprocess.TimeoutExpired:
        return f"not finished within {TIMEOUT} s"
    finally:
        if server.poll() is None:
            server.kill()
        server.wait()


def run_multicast(directory, environment):
    command = str(directory / "multicast")
    receiver = subprocess.Popen([command, "receive", "239.1.2.3", "127.0.0.1"], env=environment, stdout=subprocess.PIPE,
                                text=True)
    try:
        if receiver.stdout.readline() != "joined\n":
            return "the receiver has not joined"
        sender = subprocess.run([command, "send", "239.1.2.3", "127.0.0.1"], env=environment, stdout=subprocess.PIPE,
                                text=True, timeout=TIMEOUT)
        output, _ = receiver.communicate(timeout=TIMEOUT)
    except subprocess.TimeoutExpired:
        return f"not finished within {TIMEOUT} s"
    finally:
        if receiver.poll() is None:
            receiver.kill()
        receiver.wait()
    if (sender.returncode, sender.stdout) != (0, "joined\nsent\n") or output != "received: hello, group\n":
        return f"printed {sender.stdout!r} and {output!r}"
    return None


def main():
    source, libraries = Path(sys.argv[1]), Path(sys.argv[2])
    environment = dict(os.environ, LIBRARY_PATH=str(libraries), LD_LIBRARY_PATH=str(libraries),
                       CPATH=str(libraries / "include"))
    environment.setdefault("VERBENA_FABRIC", f"test-examples-{os.getpid()}")
    failures = 0
    with tempfile.TemporaryDirectory() as scratch:
        directory = Path(scratch)
        for file in [source / "Makefile", *source.glob("*.c")]:
            shutil.copy(file, directory)
        subprocess.run(["make", "-s", "-C", scratch, "CFLAGS=-O2 -Wall -Wextra -Werror"], env=environment, check=True)
        for pair in PAIRS:
            # one_sided's passive side listens on IPv4 or IPv6, whichever the resolver gives first.
            hosts = HOSTS if pair[0] == ["hello_server"] else ["127.0.0.1"]
            for host in hosts:
                if host == "::1" and not is_own(host):
                    print(f"{pair[1][0]} {host}: not run, no address of this host")
                    continue
                problem = run_pair(directory, environment, host, pair)
                print(f"{' '.join(pair[1])} {host}: {problem or 'ok'}")
                failures += problem is not None
        for name, run in (("why", run_why), ("multicast", run_multicast)):
            problem = run(directory, environment)
            print(f"{name}: {problem or 'ok'}")
            failures += problem is not None
    return 1 if failures else 0


sys.exit(main())
