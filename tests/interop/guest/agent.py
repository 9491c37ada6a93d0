"""The guest's end of the control channel: starts, watches and ends programs at the host's request.

A request is one line of JSON on a virtio serial port, and so is its answer: {"do": what, "request": n, ...} ->
{"result": value, "request": n} or {"error": text, ...}, with "absent" where a program is not installed.
Requests are answered in order and none blocks. The channel's end is the guest's end.
"""

import glob
import json
import sys

from programs import Program

programs = {}


def start(argv):
    program = Program(argv)
    programs[program.pid] = program
    return program.pid


def status(pid, offset):
    """[exit status or None, the output from offset on]"""
    program = programs[pid]
    code = program.code()
    return [code, program.text()[offset:]]


def ready(pid, port):
    return bool(programs[pid].ready(port))


def stop(pid, number):
    return programs[pid].stop(number)


def held_open(pid):
    return programs[pid].held_open()


REQUESTS = {function.__name__: function for function in (start, status, ready, stop, held_open)}


def channel():
    for name in glob.glob("/sys/class/virtio-ports/*/name"):
        with open(name, encoding="ascii") as file:
            if file.read().strip() == "verbena":
                return open("/dev/" + name.split("/")[-2], "r+b", buffering=0)
    sys.exit("agent: no control channel")


def main():
    port = channel()
    pending = b""
    while True:
        data = port.read(65536)
        if not data:
            return
        *lines, pending = (pending + data).split(b"\n")
        for line in lines:
            if not line:
                continue
            request = json.loads(line)
            asked = request.pop("request", None)
            try:
                answer = {"result": REQUESTS[request.pop("do")](**request)}
            except FileNotFoundError as error:
                answer = {"error": str(error), "absent": True}
            except Exception as error:  # whatever it is, the host shall read it
                answer = {"error": repr(error)}
            rest = memoryview(json.dumps({**answer, "request": asked}).encode() + b"\n")
            while rest:
                rest = rest[port.write(rest):]


main()
