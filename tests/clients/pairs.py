"""Runs one case: a server program on one station, a client program (or several at once) on another.

The server is waited for by what it does (it listens, it has said so, it is quiet), never by a fixed sleep. A case
passes when every program ended with the status that the case allows, in time, and its output matches.
"""

import dataclasses
import pathlib
import re
import shlex
import signal
import time

from stations import wait_for

READY_SECONDS = 15
SERVER_END_SECONDS = 10
REJECTED_TRIES = 10
ANY = {4: "0.0.0.0", 6: "::"}
PRELOAD = pathlib.Path(__file__).resolve().parents[2] / "build/lib/rsocket/librspreload.so"
GROUP = {4: "239.7.1.2", 6: "ff0e::7:102"}
# What the stock clients print when nobody listens yet: a server that looks ready may be a moment short of it.
# perftest's server with -R and UD listens twice, first for parameters, and a client that comes too early for the second
# time ends (it tries again with ids that it has destroyed); then both begin anew. Of a listener in another namespace the
# reason knows nothing, but this client has said where it failed.
MOVED_ON_TRIES = 8
MOVED_ON = re.compile(r"on that port: .* in RDMA_PS_UDP|Event: RDMA_CM_EVENT_UNREACHABLE; error: 1\b")
REJECTED = re.compile(r"REJECTED, (error:? |status )?8|Unexpected CM event bl blka 8|UNREACHABLE; error: 1\b|connection refused", re.IGNORECASE)


@dataclasses.dataclass(frozen=True)
class Case:
    """Command lines may hold {addr} (the server's address), {port}, {gid} (-d DEVICE -g INDEX of the station that runs
    the command), {dev} and {index}, {side} (the server's IPv4 address, for programs whose side channel is IPv4 whatever
    the GID), {any} (the family's wildcard address), {own} (the address of the station that runs the command), {group}
    (a multicast group), {preload} (librspreload.so). An empty server means that the client runs alone."""

    name: str
    server: str
    client: str
    ready: str = "quiet"  # or "tcp": listens on {port}; or a regular expression of what the server prints
    server_exit: tuple = (0,)  # empty: the server does not end by itself and is ended with stop
    client_exit: tuple = (0,)
    stop: int = signal.SIGTERM
    clients: int = 1
    seconds: float = 30
    families: tuple = (4, 6)  # those that the program takes
    places: str = ""  # a regular expression: elsewhere it is left out
    attempts: int = 1  # of which one has to pass
    expect: str = ""  # a regular expression that each client's output must match
    expect_server: str = ""


@dataclasses.dataclass
class Outcome:
    state: str  # "ok", "FAILED" or "not run"
    seconds: float = 0.0
    why: str = ""
    detail: str = ""
    again: int = 0  # clients started again because nobody listened yet
    moved_on: bool = False  # see MOVED_ON
    seen: list = dataclasses.field(default_factory=list)  # why earlier attempts failed, where several are allowed


class Failure(Exception):
    """A case does not hold; the text says what was seen."""


class MovedOn(Failure):
    """The server listens for the second part of a conversation whose first part it had with a client that is gone."""


def command(template, station, place, port):
    """A case's command line as words."""
    device = station.gid(place.family) if re.search(r"{(gid|dev|index)}", template) else None
    if device is None and re.search(r"{(gid|dev|index)}", template):
        raise Failure(f"no device of {station.name} has the GID of {station.address(place.family)}")
    name, index = device or ("", "")
    return shlex.split(template.format(
        addr=place.server.address(place.family), side=place.server.address(4), port=port, any=ANY[place.family],
        own=station.address(place.family), group=GROUP[place.family], preload=PRELOAD,
        gid=f"-d {name} -g {index}", dev=name, index=index))


def run_case(case, place, port):
    """Runs the case in the place; never raises for what the programs do."""
    failures = []
    anew = 0
    while True:
        outcome = try_case(case, place, port)
        if outcome.moved_on and anew < MOVED_ON_TRIES:
            anew += 1
            continue
        if outcome.state != "FAILED" or len(failures) + 1 >= case.attempts:
            break
        failures.append(outcome.why)
    outcome.seen = failures
    return outcome


def try_case(case, place, port):
    started = time.monotonic()
    outcome = Outcome("ok")
    programs = []
    try:
        server = None
        if case.server:
            server = place.server.start(command(case.server, place.server, place, port))
            programs.append(("server", server))
            await_ready(case, server, port)
        run_clients(case, place, port, server, programs, outcome)
        if server:
            end_server(case, server)
    except Failure as failure:
        outcome.state, outcome.why, outcome.moved_on = "FAILED", str(failure), isinstance(failure, MovedOn)
    except FileNotFoundError as absent:
        outcome.state, outcome.why = "not run", str(absent)
    finally:
        for _, program in reversed(programs):
            program.stop()
    if outcome.state == "FAILED":
        outcome.detail = "".join(describe(role, program) for role, program in programs)
    outcome.seconds = time.monotonic() - started
    return outcome


def await_ready(case, server, port):
    if case.ready == "tcp":
        condition = lambda: server.ready(port)
    elif case.ready == "quiet":
        condition = server.ready
    else:
        condition = lambda: re.search(case.ready, server.text())
    if not wait_for(server, READY_SECONDS, condition):
        if server.code() is not None:
            raise Failure(f"the server ended with status {server.code()} before its client came")
        raise Failure(f"the server was not ready within {READY_SECONDS} s")


def run_clients(case, place, port, server, programs, outcome):
    argv = command(case.client, place.client, place, port)
    deadline = time.monotonic() + case.seconds
    for attempt in range(REJECTED_TRIES):
        clients = [place.client.start(argv) for _ in range(case.clients)]
        numbered = [("client", clients[0])] if case.clients == 1 else list(
            (f"client {i + 1}", client) for i, client in enumerate(clients))
        del programs[1 if server else 0:]
        programs.extend(numbered)
        for role, client in numbered:
            wait_for(client, max(deadline - time.monotonic(), 0), lambda: client.code() is not None)
        early = server and server.code() is None and all(
            client.code() not in (None, *case.client_exit) and REJECTED.search(client.whole_text()) for client in clients)
        if early and all(MOVED_ON.search(client.whole_text()) for client in clients):
            raise MovedOn("the server has gone on to its second listener, and the client begins with the first")
        if not early or attempt == REJECTED_TRIES - 1:
            break
        outcome.again += case.clients
        time.sleep(0.1 * (attempt + 1))
    for role, client in numbered:
        if client.code() is None:
            raise Failure(f"{role}: still running after {case.seconds:g} s")
        check_end(role, client, case.client_exit, case.expect)


def end_server(case, server):
    if case.server_exit:
        wait_for(server, SERVER_END_SECONDS, lambda: server.code() is not None)
        if server.code() is None:
            raise Failure(f"server: still running {SERVER_END_SECONDS} s after its client ended")
        check_end("server", server, case.server_exit, case.expect_server)
        return
    if server.code() is not None:
        raise Failure(f"server: ended by itself with status {server.code()}")
    if case.expect_server:
        wait_for(server, SERVER_END_SECONDS, lambda: re.search(case.expect_server, server.text()))
    code = server.stop(case.stop)
    if code == 128 + signal.SIGKILL:
        raise Failure(f"server: did not end at signal {case.stop}")
    check_end("server", server, (code,), case.expect_server)


def check_end(role, program, exits, pattern):
    """The exit status, the end of the output and what it says."""
    if program.code() not in exits:
        raise Failure(f"{role}: exit status {program.code()}")
    if program.held_open():
        raise Failure(f"{role}: has ended, and another process holds its output open")
    if pattern and not re.search(pattern, program.text(), re.MULTILINE):
        raise Failure(f"{role}: no line matches {pattern!r}")


def describe(role, program):
    """What an ended program said, for the reader of a failure."""
    program.held_open()  # waits for the rest of it
    text = program.text().rstrip()
    lines = text.splitlines()
    if len(lines) > 60:
        lines = lines[:30] + [f"... {len(lines) - 60} lines ..."] + lines[-30:]
    body = "".join(f"        | {line}\n" for line in lines)
    return f"      {role} (status {program.code()}): {shlex.join(program.argv)}\n{body}"
