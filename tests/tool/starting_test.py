#!/usr/bin/env python3
"""starting_test.py BUILD: the command works however it was started (children ignored, descriptors closed), tells what it
could not write, and passes to a program what is meant for it, nothing else."""

import json
import os
import signal
import subprocess
import sys
import time
import unittest

from tool import ENVIRONMENT, LIBRARIES, VERBENA, Case, run

SECONDS = 60
FULL = "/dev/full"


def ignore_children():
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)


class Inherited(Case):
    def test_children_that_are_ignored(self):
        """The kernel would wait for them itself, and nobody hear of their end."""
        for command in (("trace",), ("record", "-o", os.path.join(self.folder, "it.vrec")), ("run", "--strict"),
                        ("run", "--fault", "drop")):
            with self.subTest(command=command[0]):
                result = run(VERBENA, *command, "--", "sh", "-c", "exit 7", preexec_fn=ignore_children)
                self.assertEqual(7, result.returncode, result.stderr)
        result = run(VERBENA, "explore", "--", "true", preexec_fn=ignore_children)
        self.assertEqual((2, "verbena: the program made no RDMA call and sent no packet\n"), (result.returncode, result.stderr))

    def test_the_program_has_them_as_before(self):
        look = ("grep", "^SigIgn", "/proc/self/status")
        expected = run(*look, preexec_fn=ignore_children).stdout
        for command in (("run",), ("run", "--strict"), ("trace",)):
            self.assertEqual(expected, run(VERBENA, *command, "--", *look, preexec_fn=ignore_children).stdout)

    def test_the_doctor_can_look_then(self):
        def memory_exchange(**options):
            findings = json.loads(run(VERBENA, "doctor", "-j", **options).stdout)
            return next(each for each in findings if each["check"] == "memory-exchange")

        self.assertEqual(memory_exchange(), memory_exchange(preexec_fn=ignore_children))

    def test_descriptors_that_are_closed(self):
        """Nothing else gets their numbers, and the program finds them closed."""
        file = os.path.join(self.folder, "it.vrec")
        result = run("sh", "-c", '"$0" record -o "$1" -- sh -c "[ -e /proc/self/fd/0 ] || exit 7" <&- 2>&- >&-', VERBENA, file)
        self.assertEqual(7, result.returncode)
        with open(file, encoding="utf-8") as recorded:
            for line in recorded:
                json.loads(line)


class Unwritten(Case):
    def test_output_that_could_not_be_written(self):
        for words in (("metrics",), ("status",), ("ps",), ("stat", "-a"), ("doctor",), ("fault", "--calls"), ("explain", "wc", "12"),
                      ("env",), ("top", "-n", "1", "-d", "0.01")):
            with self.subTest(command=words[0]), open(FULL, "w", encoding="utf-8") as full:
                result = subprocess.run([VERBENA, *words], env=ENVIRONMENT, stdout=full, stderr=subprocess.PIPE, text=True,
                                        timeout=SECONDS, check=False)
                self.assertEqual((1, "verbena: not everything could be written to stdout\n"), (result.returncode, result.stderr))

    def test_a_trace_and_a_recording(self):
        program = self.compile_file("two_ends", "-libverbs")
        for command in ("trace", "record"):
            result = run(VERBENA, command, "-o", FULL, "--", program, "send")
            self.assertEqual(1, result.returncode)
            self.assertEqual(1, result.stderr.count("\n"), result.stderr)
            self.assertIn(f"verbena: {FULL}: ", result.stderr)
            self.assertEqual("send success\nreceived success 1\n", result.stdout)

    def test_a_capture(self):
        with open(FULL, "w", encoding="utf-8") as full:
            result = subprocess.run([VERBENA, "capture", "-w", "-"], env=ENVIRONMENT, stdout=full, stderr=subprocess.PIPE,
                                    text=True, timeout=SECONDS, check=False)
        self.assertEqual(1, result.returncode)
        self.assertIn("stdout: No space left on device", result.stderr)

    def test_what_was_there_stays_if_nothing_begins(self):
        file = self.write("old", "of old\n")
        for words in (("record", "-o", file, "--fault", "nonsense", "--", "true"), ("trace", "-o", file, "--log", "loud", "--", "true"),
                      ("capture", "-w", file)):
            result = run(VERBENA, *words, env=dict(ENVIRONMENT, VERBENA_DAEMON="/nowhere/verbenad", VERBENA_FABRIC="nowhere"))
            self.assertNotEqual(0, result.returncode)
            with open(file, encoding="utf-8") as left:
                self.assertEqual("of old\n", left.read(), words[0])


class Signals(Case):
    def test_a_broken_pipe_is_the_commands_own(self):
        program = self.compile_file("two_ends", "-libverbs")
        read, write = os.pipe()
        os.close(read)
        result = run("sh", "-c", f'exec "$0" trace -- "$1" send 2>&{write}', VERBENA, program, pass_fds=(write,))
        os.close(write)
        self.assertEqual("send success\nreceived success 1\n", result.stdout)
        self.assertGreaterEqual(result.returncode, 0)

    def test_a_program_that_was_stopped_goes_on(self):
        """Who stops the program alone knows nothing of the command."""
        started = subprocess.Popen([VERBENA, "trace", "--", sys.executable, "-c", "import os; print(os.getpid(), flush=True); input()"],
                                   env=ENVIRONMENT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.addCleanup(started.stdout.close)
        self.addCleanup(started.kill)
        program = int(started.stdout.readline())
        os.kill(program, signal.SIGSTOP)
        for _ in range(20):  # a command that stops, too, would have by then
            time.sleep(0.02)
        os.kill(program, signal.SIGCONT)
        started.communicate("\n", timeout=SECONDS)
        self.assertEqual(0, started.returncode)

    def test_an_exploration_leaves_nothing(self):
        folder = os.path.join(self.folder, "scratch")
        os.mkdir(folder)
        program = self.write("waits", "#!/bin/sh\necho $$ >\"$0.pid\"\nexec sleep 1000\n", 0o755)
        started = subprocess.Popen([VERBENA, "explore", "--", program], env=dict(ENVIRONMENT, XDG_RUNTIME_DIR=folder),
                                   stderr=subprocess.DEVNULL)
        self.addCleanup(started.kill)
        pid = ""
        for _ in range(SECONDS * 20):
            if os.path.exists(f"{program}.pid") and pid.endswith("\n"):
                break
            time.sleep(0.05)
            if os.path.exists(f"{program}.pid"):
                with open(f"{program}.pid", encoding="utf-8") as file:
                    pid = file.read()
        started.send_signal(signal.SIGTERM)
        self.assertEqual(-signal.SIGTERM, started.wait(SECONDS))
        self.assertFalse(os.path.exists(f"/proc/{pid.strip()}"))
        self.assertFalse([name for name in os.listdir(folder) if name.startswith("verbena-") and not name.startswith("verbena-view")])


class Killed(Case):
    """A command that is killed cannot take its files away; the next one does."""

    def test_the_next_one_removes_what_is_left(self):
        folder = os.path.join(self.folder, "scratch")
        os.mkdir(folder)
        settings = dict(ENVIRONMENT, XDG_RUNTIME_DIR=folder)
        kept = os.path.join(folder, "verbena-of-the-user")
        with open(kept, "w", encoding="utf-8"):
            pass
        commands = (("trace",), ("record", "-o", os.path.join(self.folder, "{}.vrec")), ("run", "--strict", "--fault", "drop"))
        for words in commands:
            killed, lives = (subprocess.Popen([VERBENA, *(word.format(number) for word in words), "--", "sh", "-c", "echo ready; exec cat"],
                                              env=settings, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                              stderr=subprocess.DEVNULL, start_new_session=True)
                             for number in range(2))
            for each in (killed, lives):
                self.addCleanup(each.wait)
                for end in (each.stdin, each.stdout):
                    self.addCleanup(end.close)  # which ends the program, too
                self.addCleanup(each.kill)
                each.stdout.readline()
            before = set(os.listdir(folder))
            os.killpg(killed.pid, signal.SIGKILL)
            killed.wait(SECONDS)
            self.assertEqual(before, set(os.listdir(folder)))
            run(VERBENA, "trace", "--", "true", env=settings)
            left = set(os.listdir(folder))
            self.assertEqual(len(before) - 1, 2 * (len(left) - 1), words)  # those of the one that lives
            os.killpg(lives.pid, signal.SIGTERM)
            lives.wait(SECONDS)
            self.assertEqual([os.path.basename(kept)], os.listdir(folder), words)


class Others(Case):
    """What somebody else may not decide."""

    @unittest.skipUnless(os.geteuid() == 0, "only root can give files away")
    def test_a_runtime_folder_of_another_user(self):
        folder = os.path.join(self.folder, "runtime")
        os.mkdir(folder, 0o700)
        os.chown(folder, 65534, 65534)
        result = run(VERBENA, "run", "--strict", "--fault", "drop", "--", "sh", "-c", "echo $VERBENA_FAULT $VERBENA_STRICT_REPORT",
                     env=dict(ENVIRONMENT, XDG_RUNTIME_DIR=folder))
        self.assertIn("verbena-", result.stdout)
        self.assertNotIn(folder, result.stdout)

    @unittest.skipUnless(os.geteuid() == 0, "only root can give files away")
    def test_programs_with_raised_rights_write_no_files(self):
        program = self.compile("raised", "#include <infiniband/verbs.h>\nint main(void) {\n"
                               "struct ibv_device** list = ibv_get_device_list(0);\n"
                               "return list && *list && ibv_open_device(*list) ? 0 : 0; }", f"-Wl,-rpath,{LIBRARIES}",
                               f"-L{LIBRARIES}", "-l:libibverbs.so.1")
        os.chmod(self.folder, 0o777)
        settings = dict(ENVIRONMENT, VERBENA_LOG=f"debug,file={self.folder}/log", VERBENA_CAPTURE=f"{self.folder}/capture")
        self.assertEqual(0, run("unshare", "--net", program, env=settings).returncode)
        self.assertTrue([name for name in os.listdir(self.folder) if name == "log"])
        os.unlink(os.path.join(self.folder, "log"))
        os.chown(program, 65534, 65534)
        os.chmod(program, 0o4755)
        self.assertEqual(0, run("unshare", "--net", program, env=settings).returncode)
        self.assertFalse([name for name in os.listdir(self.folder) if name.startswith(("log", "capture"))])


class Names(Case):
    """Of files, for programs that are in another folder."""

    def test_relative_files(self):
        words = ("--capture", "packets", "--log", "debug,file=log")
        folder = os.path.realpath(self.folder)
        result = run(VERBENA, "run", *words, "--", "sh", "-c", "cd /; echo $VERBENA_CAPTURE $VERBENA_LOG", cwd=folder)
        self.assertEqual(f"{folder}/packets debug,file={folder}/log\n", result.stdout, result.stderr)
        result = run(VERBENA, "env", *words, cwd=folder)
        self.assertIn(f"VERBENA_CAPTURE={folder}/packets;", result.stdout)
        self.assertIn(f"file={folder}/log;", result.stdout)


if __name__ == "__main__":
    unittest.main(argv=sys.argv)
