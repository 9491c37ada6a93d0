"""Programs under test: started in a session of their own, watched, and ended by process id.

Every program gets a pseudo-terminal for its output, so that its lines come out as it prints them (through a pipe the C
library would keep them until the end, and a server that is killed would have said nothing). Not thread safe: each
Program belongs to the thread that started it; only its output is collected by another.
"""

import os
import pty
import shutil
import signal
import subprocess
import threading
import time
import tty

QUIET_SECONDS = 0.1  # a server that did nothing for so long is waiting for its client
OUTPUT_END_SECONDS = 5.0  # after the exit, for whatever else has the terminal open


def listens(pid, port):
    """Whether somebody listens on TCP port in the network namespace of that process."""
    for table in ("tcp", "tcp6"):
        try:
            with open(f"/proc/{pid}/net/{table}", encoding="ascii") as file:
                for line in file.readlines()[1:]:
                    words = line.split()
                    if words[3] == "0A" and int(words[1].rpartition(":")[2], 16) == port:
                        return True
        except OSError:
            pass
    return False


class Program:
    """One running program: argv, started by a launcher (a command line that execs what follows it) or directly.
    The constructor raises FileNotFoundError when there is no such program."""

    def __init__(self, argv, launcher=(), cwd=None):
        self.argv = [*launcher, *argv]
        path = shutil.which(argv[0])
        if path is None:
            raise FileNotFoundError(f"{argv[0]} is not installed")
        self.executable = os.path.basename(os.path.realpath(path))
        self.master, slave = pty.openpty()
        tty.setraw(slave)  # or each line would end in \r\n
        self.chunks = []
        try:
            self.process = subprocess.Popen(
                self.argv, stdin=subprocess.DEVNULL, stdout=slave, stderr=slave, cwd=cwd, start_new_session=True)
        finally:
            os.close(slave)
        self.pid = self.process.pid
        self.reader = threading.Thread(target=self._collect, daemon=True)
        self.reader.start()
        self.seen = None
        self.seen_since = 0.0

    def _collect(self):
        while True:
            try:
                data = os.read(self.master, 65536)
            except OSError:  # EIO: the last writer has gone
                break
            if not data:
                break
            self.chunks.append(data)
        os.close(self.master)

    def text(self):
        """All output so far, standard output and error together."""
        return b"".join(self.chunks).decode(errors="replace")

    def whole_text(self):
        """After the exit: all output, the rest of which may still be on its way."""
        self.held_open()
        return self.text()

    def code(self):
        """The exit status as a shell gives it (128 + n after signal n), or None while it runs."""
        code = self.process.poll()
        return 128 - code if code is not None and code < 0 else code

    def held_open(self):
        """After the exit: whether some other process still has the program's output open."""
        self.reader.join(OUTPUT_END_SECONDS)
        return self.reader.is_alive()

    def stop(self, number=signal.SIGTERM):
        """Ends the program if it still runs, and returns its exit status."""
        for attempt in (number, signal.SIGKILL):
            if self.code() is None:
                self.process.send_signal(attempt)
                try:
                    self.process.wait(3)
                except subprocess.TimeoutExpired:
                    continue
        return self.code()

    def ready(self, port=None, quiet=QUIET_SECONDS):
        """Whether the server waits for a client: it listens on TCP port, or, without a port, does nothing any more."""
        return listens(self.pid, port) if port else self._quiet(quiet)

    def _quiet(self, seconds):
        """All threads asleep, in the program itself (not a launcher before it), with no context switch since."""
        try:
            executable = os.path.basename(os.readlink(f"/proc/{self.pid}/exe"))
            if executable != self.executable and not executable.startswith("memcheck-"):  # valgrind, which runs it inside
                return False
            snapshot = []
            for task in sorted(os.listdir(f"/proc/{self.pid}/task")):
                with open(f"/proc/{self.pid}/task/{task}/status", encoding="ascii") as file:
                    fields = dict(line.split(":", 1) for line in file if ":" in line)
                if fields["State"].split()[0] != "S":
                    self.seen = None
                    return False
                snapshot.append((task, fields["voluntary_ctxt_switches"], fields["nonvoluntary_ctxt_switches"]))
        except OSError:
            return False
        now = time.monotonic()
        if snapshot != self.seen:
            self.seen, self.seen_since = snapshot, now
        return now - self.seen_since >= seconds
