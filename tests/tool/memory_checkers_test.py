#!/usr/bin/env python3
"""memory_checkers_test.py BUILD: programs under valgrind's memcheck, or built with ASan and UBSan, see received bytes as
defined and hear nothing of Verbena; what a program itself does too early is still reported. Over both links."""

import os
import shutil
import unittest

from tool import ENVIRONMENT, VERBENA, Case, run

REPORTED = 99
MEMCHECK = ("valgrind", "--quiet", f"--error-exitcode={REPORTED}", "--leak-check=full",
            "--show-leak-kinds=definite", "--errors-for-leak-kinds=definite")

NEEDS_VALGRIND = unittest.skipUnless(shutil.which("valgrind"), "valgrind is not installed")


class MemoryCheckers(Case):
    def program(self, *flags):
        return self.compile_file("fresh_memory", "-g", *flags, "-lrdmacm", "-libverbs")

    def on_both_links(self, *command, check):
        for link in ("wire", "local"):
            with self.subTest(link=link):
                check(run(VERBENA, "run", "--", *command, env=dict(ENVIRONMENT, VERBENA_LINK=link)))

    def hears_nothing(self, result):
        self.assertEqual((0, ""), (result.returncode, result.stderr))

    def hears_of_its_look(self, result):
        self.assertEqual(REPORTED, result.returncode)
        self.assertIn("Conditional jump or move depends on uninitialised value(s)", result.stderr)
        self.assertIn("look_at (fresh_memory.c", result.stderr)

    def hears_of_its_write(self, result):
        self.assertEqual(REPORTED, result.returncode)
        self.assertIn("Unaddressable byte(s) found during client check request", result.stderr)
        self.assertIn("post (fresh_memory.c", result.stderr)

    @NEEDS_VALGRIND
    def test_memcheck(self):
        self.on_both_links(*MEMCHECK, self.program(), check=self.hears_nothing)

    @NEEDS_VALGRIND
    def test_memcheck_sees_what_is_too_early(self):
        self.on_both_links(*MEMCHECK, self.program(), "early", check=self.hears_of_its_look)

    @NEEDS_VALGRIND
    def test_memcheck_sees_what_is_freed(self):
        self.on_both_links(*MEMCHECK, self.program(), "freed", check=self.hears_of_its_write)

    @NEEDS_VALGRIND
    def test_memcheck_with_a_capture_and_strict(self):
        program = self.program()
        for option in ("--strict", "--capture=" + os.path.join(self.folder, "packets.pcapng")):
            with self.subTest(option=option):
                self.hears_nothing(run(VERBENA, "run", option, "--", *MEMCHECK, program, env=ENVIRONMENT))

    def test_sanitizers(self):
        program = self.program("-fsanitize=address,undefined", "-fno-sanitize-recover=all")
        self.on_both_links(program, check=self.hears_nothing)
        # What has not been destroyed when the program ends is no leak: somebody still has it.
        self.on_both_links(program, "kept", check=self.hears_nothing)


if __name__ == "__main__":
    unittest.main()
