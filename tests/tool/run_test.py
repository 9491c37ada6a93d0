#!/usr/bin/env python3
"""run_test.py BUILD: `verbena run` is transparent: the program is this very process, with the caller's stdin, terminal,
descriptors, signals and exit status; a program that would not load our libraries is named."""

import os
import pty
import shutil
import signal
import subprocess
import sys
import unittest

from tool import ENVIRONMENT, LIBRARIES, VERBENA, WHOSE, Case, preloadable, run

QUIET = "int main(void) { return 0; }"


def under(*command, **options):
    return run(VERBENA, "run", "--", *command, **options)


class Transparent(Case):
    def test_it_becomes_the_program(self):
        process = subprocess.Popen([VERBENA, "run", "--", "sh", "-c", "echo $$"], stdout=subprocess.PIPE, text=True,
                                   env=ENVIRONMENT)
        self.assertEqual(process.pid, int(process.communicate(timeout=60)[0]))

    def test_it_says_nothing(self):
        result = under("true")
        self.assertEqual((0, "", ""), (result.returncode, result.stdout, result.stderr))

    def test_stdin_is_the_callers(self):
        self.assertEqual("one\ntwo\n", under("cat", input="one\ntwo\n").stdout)

    def test_exit_status_is_the_programs(self):
        for status in (0, 1, 3, 77, 126, 127, 255):
            self.assertEqual(status, under("sh", "-c", f"exit {status}").returncode)
        self.assertEqual(5, under("bash", "-c", "exit 5").returncode)

    def test_signals_reach_the_program(self):
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGKILL):
            process = subprocess.Popen([VERBENA, "run", "--", "sh", "-c", "echo ready; exec sleep 60"],
                                       stdout=subprocess.PIPE, env=ENVIRONMENT)
            process.stdout.readline()
            process.send_signal(number)
            self.assertEqual(-number, process.wait(timeout=60))
            process.stdout.close()

    def test_signal_dispositions_and_mask_are_kept(self):
        look = ("grep", "-E", "^Sig(Blk|Ign|Cgt)", "/proc/self/status")
        prepare = {"preexec_fn": lambda: (signal.signal(signal.SIGUSR1, signal.SIG_IGN),
                                          signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR2}))}
        self.assertEqual(run(*look, **prepare).stdout, under(*look, **prepare).stdout)

    def test_descriptors_are_the_callers(self):
        look = ("sh", "-c", "ls /proc/$$/fd")
        self.assertEqual(run(*look).stdout, under(*look).stdout)
        read, write = os.pipe()
        result = under("sh", "-c", f"echo through >&{write}", pass_fds=(write,))
        os.close(write)
        with os.fdopen(read) as pipe:
            self.assertEqual((0, "through\n"), (result.returncode, pipe.read()))

    def test_a_terminal_stays_one(self):
        controller, terminal = pty.openpty()
        name = os.ttyname(terminal)
        result = under("tty", stdin=terminal)
        os.close(controller)
        os.close(terminal)
        self.assertEqual(name + "\n", result.stdout)

    def test_pipelines(self):
        inside = under("bash", "-c", "printf 'a\\nb\\n' | wc -l")
        self.assertEqual("2", inside.stdout.strip())
        # The program in front dies of SIGPIPE, as it would alone.
        outside = run("bash", "-c", f"'{VERBENA}' run -- yes | head -n 1; echo ${{PIPESTATUS[0]}}")
        self.assertEqual("y\n141\n", outside.stdout)

    def test_words_are_not_changed(self):
        words = ["--help", "-s", "a b", "", "'\"$x", "--", "--log=warn"]
        self.assertEqual("".join(w + "\n" for w in words), under("printf", "%s\\n", *words).stdout)

    def test_the_separator_may_be_left_out(self):
        self.assertEqual("-n\n", run(VERBENA, "run", "printf", "%s\\n", "-n").stdout)
        self.assertEqual("warn\n", run(VERBENA, "run", "--log", "warn", "printenv", "VERBENA_LOG").stdout)
        self.assertEqual("warn\n", run(VERBENA, "run", "--log=warn", "--", "printenv", "VERBENA_LOG").stdout)

    def test_inside_itself(self):
        once, twice = under("printenv", "LD_LIBRARY_PATH"), under(VERBENA, "run", "--", "printenv", "LD_LIBRARY_PATH")
        self.assertEqual(LIBRARIES + "\n", once.stdout)
        self.assertEqual(once.stdout, twice.stdout)

    def test_a_path_of_the_users_stays_behind(self):
        result = under("printenv", "LD_LIBRARY_PATH", env=dict(ENVIRONMENT, LD_LIBRARY_PATH="/somewhere"))
        self.assertEqual(f"{LIBRARIES}:/somewhere\n", result.stdout)

    @unittest.skipUnless(shutil.which("gdb"), "no gdb here")
    def test_under_gdb(self):
        program = self.compile("whose", WHOSE, "-lrdmacm", "-libverbs", "-ldl")
        result = under("gdb", "-q", "-batch", "-ex", "run", "--args", program)
        self.assertIn(f"{LIBRARIES}/libibverbs.so.1 {LIBRARIES}/librdmacm.so.1", result.stdout)
        self.assertIn("exited normally", result.stdout)


class Failures(Case):
    def test_not_found(self):
        result = under("no-such-program")
        self.assertEqual((127, "", "verbena: no-such-program: No such file or directory\n"),
                         (result.returncode, result.stdout, result.stderr))

    def test_not_executable(self):
        file = self.write("data", "no program\n")
        result = under(file)
        self.assertEqual((126, f"verbena: {file}: Permission denied\n"), (result.returncode, result.stderr))

    def test_no_program(self):
        for words in ((), ("--",), ("--log", "warn")):
            result = run(VERBENA, "run", *words)
            self.assertEqual(2, result.returncode)
            self.assertEqual(1, result.stderr.count("\n"), result.stderr)


class Warnings(Case):
    """A program that would load another libibverbs all the same is told so, in one line, and runs."""

    def warning(self, program, **options):
        result = under(program, **options)
        self.assertEqual(0, result.returncode, result.stderr)
        # The loader's own, of a set-user-ID program, where our folder has a space in its name.
        return "".join(line for line in result.stderr.splitlines(True) if not line.startswith("ERROR: ld.so"))

    def assert_one_line(self, text, *parts):
        self.assertEqual(1, text.count("\n"), text)
        for part in parts:
            self.assertIn(part, text)

    def test_ordinary_programs_get_none(self):
        self.assertEqual("", self.warning(self.compile("plain", QUIET)))
        self.assertEqual("", self.warning(self.compile("runpath", QUIET, f"-Wl,-rpath,{self.foreign()}",
                                                       "-Wl,--enable-new-dtags")))
        self.assertEqual("", self.warning(self.compile("static", QUIET, "-static")))
        self.assertEqual("", self.warning(self.write("script", "#!/bin/sh\nexit 0\n", 0o755)))

    def foreign(self):
        self.write("foreign/libibverbs.so.1", "")
        return os.path.join(self.folder, "foreign")

    @unittest.skipIf(preloadable(LIBRARIES) != LIBRARIES, "what is preloaded has no spaces in its name")
    def test_an_rpath_is_passed_by(self):
        """What it leads to is no library, so that a program that took it would not start."""
        self.foreign()
        source = ("#include <infiniband/verbs.h>\nint main(void) { int n = 0; "
                  "return ibv_get_device_list(&n) && n > 0 ? 0 : 1; }")
        for folder in (os.path.join(self.folder, "foreign"), "$ORIGIN/foreign"):
            program = self.compile("rpath", source, f"-Wl,-rpath,{folder}", "-Wl,--disable-new-dtags",
                                   f"-L{LIBRARIES}", "-libverbs")
            self.assertEqual("", self.warning(program))

    def test_rpath_without_rdma_libraries(self):
        program = self.compile("rpath", QUIET, "-Wl,-rpath,/usr/share", "-Wl,--disable-new-dtags")
        self.assertEqual("", self.warning(program))

    @unittest.skipIf(preloadable(LIBRARIES) == LIBRARIES, "it is passed by")
    def test_an_rpath_that_cannot_be_passed_by(self):
        program = self.compile("rpath", QUIET, f"-Wl,-rpath,{self.foreign()}", "-Wl,--disable-new-dtags")
        self.assert_one_line(self.warning(program), "RPATH")

    def test_static(self):
        source = 'const char* volatile where = "/dev/infiniband/uverbs0"; int main(void) { return where == 0; }'
        self.assert_one_line(self.warning(self.compile("static", source, "-static")), "statically linked")

    def test_static_programs_that_are_watched(self):
        program = self.compile("static", QUIET, "-static")
        file = os.path.join(self.folder, "it.vrec")
        system = [("run", "--system", "--strict")] if preloadable(LIBRARIES) == LIBRARIES else []
        for words in (("run", "--strict"), ("trace", "-o", file), ("record", "-o", file), *system):
            result = run(VERBENA, *words, "--", program)
            self.assertEqual((0, ""), (result.returncode, result.stdout))
            self.assert_one_line(result.stderr, "none of its calls", "statically linked")

    @unittest.skipUnless(os.geteuid() == 0, "only root can give files away")
    def test_set_user_id(self):
        program = self.compile("setuid", QUIET)
        os.chown(program, 65534, -1)
        os.chmod(program, 0o4755)
        self.assert_one_line(self.warning(program), "set-user-ID")


class System(Case):
    """run --system in an environment of Verbena's."""

    NAMES = ("LD_LIBRARY_PATH", "LIBRARY_PATH", "LD_PRELOAD", "PATH")

    def seen(self, before, *inside, **settings):
        """What `printenv` says of each, below that command of Verbena's."""
        show = "for name in " + " ".join(self.NAMES) + '; do echo "$name=$(printenv $name)"; done'
        result = run(VERBENA, *before, "--", VERBENA, *inside, "--", "/bin/sh", "-c", show, env={**ENVIRONMENT, **settings})
        self.assertEqual((0, ""), (result.returncode, result.stderr))
        return dict(line.split("=", 1) for line in result.stdout.splitlines())

    def test_nothing_of_ours_is_left(self):
        for before in (("run",), ("run", "--sockets")):
            self.assertEqual({"LD_LIBRARY_PATH": "", "LIBRARY_PATH": "", "LD_PRELOAD": "", "PATH": ENVIRONMENT["PATH"]},
                             self.seen(before, "run", "--system"))

    def test_everything_else_is(self):
        settings = {"LD_LIBRARY_PATH": "/one:/two/:", "LIBRARY_PATH": "/three", "LD_PRELOAD": "libc.so.6 libm.so.6",
                    "PATH": "/usr/bin::/bin"}
        self.assertEqual(settings, self.seen(("run",), "run", "--system", **settings))

    def test_what_a_command_around_it_looks_at(self):
        self.assertEqual(preloadable(os.path.join(LIBRARIES, "libverbena-interpose.so")),
                         self.seen(("run", "--strict"), "run", "--system")["LD_PRELOAD"])

    def test_the_libraries_are_the_systems(self):
        program = self.compile("whose", WHOSE, "-lrdmacm", "-libverbs", "-ldl")
        for before in (f"'{VERBENA}' run -- '{VERBENA}' run --system --", f"eval $('{VERBENA}' env); '{VERBENA}' run --system --"):
            result = run("sh", "-c", f"{before} ldd '{program}'")
            self.assertNotIn(LIBRARIES, result.stdout, result.stderr)
            self.assertIn("libibverbs.so.1 =>", result.stdout)


class Mistakes(Case):
    """Each is told in one sentence, on stderr, before any program runs."""

    def complaint(self, *arguments, **settings):
        result = run(VERBENA, *arguments, env={**ENVIRONMENT, **settings})
        self.assertEqual((2, ""), (result.returncode, result.stdout), result.stderr)
        self.assertRegex(result.stderr, r"\Averbena: [^\n]+\n\Z")
        return result.stderr

    def test_command_line(self):
        self.assertIn("'frob'", self.complaint("frob"))
        self.assertIn("--nope", self.complaint("run", "--nope", "3", "--", "true"))
        self.assertIn("needs a program", self.complaint("run"))
        self.assertIn("'bogus'", self.complaint("help", "bogus"))
        self.assertIn("'frob'", self.complaint("frob", "--help"))
        for option in ("--fabric", "--log", "--capture", "--disable"):
            self.assertIn(f"{option}: it is empty", self.complaint("run", option, "", "--", "true"))
        for wrong in ("nan", "0", "1e9", "x"):
            self.assertIn(f"{wrong} is no number from 0.1", self.complaint("explore", "-t", wrong, "true"))
        self.complaint()

    def test_settings(self):
        self.assertIn("VERBENA_LOG=loud", self.complaint("run", "--log", "loud", "--", "true"))
        self.assertIn("/no/such/folder/log", self.complaint("run", "--log", "warn,file=/no/such/folder/log", "true"))
        self.assertIn("grow", self.complaint("run", "true", VERBENA_DISABLE="gso,grow"))
        self.assertIn("VERBENA_LINK=wires", self.complaint("run", "true", VERBENA_LINK="wires"))
        self.assertIn("VERBENA_KEYS=any", self.complaint("run", "true", VERBENA_KEYS="any"))
        self.assertIn("a/b", self.complaint("run", "true", VERBENA_FABRIC="a/b"))
        self.assertIn("/no/such/folder/it", self.complaint("run", "--capture", "/no/such/folder/it", "--", "true"))


if __name__ == "__main__":
    unittest.main(argv=sys.argv)
