#!/usr/bin/env python3
"""Tests of the judge: what unittest prints, and the list of skips."""

import contextlib
import io
import os
import tempfile
import unittest

import outcomes

RUN = """\
test_one (tests.test_mr.MRTest.test_one)
What it tests. ... ok
test_two (tests.test_mr.MRTest.test_two) ... skipped 'no such thing'
test_three (tests.test_qp.QPTest) ... Player active got: something
FAIL
test_four (tests.test_raw.Raw.test_four) ... skipped "it's raw"
test_five (tests.test_raw.Raw.test_five) ... ERROR

======================================================================
ERROR: test_five (tests.test_raw.Raw.test_five)
----------------------------------------------------------------------
OSError: five

======================================================================
FAIL: test_three (tests.test_qp.QPTest)
----------------------------------------------------------------------
AssertionError: three

----------------------------------------------------------------------
Ran 5 tests in 0.400s

FAILED (failures=1, errors=1, skipped=2)
"""


class Parsing(unittest.TestCase):
    def test_outcomes(self):
        self.assertEqual({"test_mr.MRTest.test_one": ("passed", ""),
                          "test_mr.MRTest.test_two": ("skipped", "no such thing"),
                          "test_qp.QPTest.test_three": ("failed", ""),
                          "test_raw.Raw.test_four": ("skipped", "it's raw"),
                          "test_raw.Raw.test_five": ("error", "")}, outcomes.parse(RUN))

    def test_a_run_that_breaks_off(self):
        broken = RUN[:RUN.index("skipped \"it's raw")]
        self.assertEqual("error", outcomes.parse(broken)["test_raw.Raw.test_four"].state)

    def test_details(self):
        self.assertIn("AssertionError: three", outcomes.details(RUN)["test_qp.QPTest.test_three"])
        self.assertNotIn("Ran 5", outcomes.details(RUN)["test_qp.QPTest.test_three"])


class Judging(unittest.TestCase):
    def report(self, skips, text=RUN):
        with tempfile.NamedTemporaryFile("w") as file:
            file.write(skips)
            file.flush()
            expected = outcomes.read_list(file.name)
        with contextlib.redirect_stdout(io.StringIO()) as out:
            status = outcomes.report(text, expected)
        return status, out.getvalue()

    GOOD = "\n".join(RUN.split("test_three")[0].splitlines()) + "\n"

    def test_failures_and_errors_count_whatever_the_list_says(self):
        status, text = self.report("test_mr.*two x\n?test_raw.* raw packets\n?test_qp.* x\n")
        self.assertEqual(1, status)
        self.assertIn("2 not as expected", text)
        self.assertIn("| AssertionError: three", text)

    def test_expected_skips_are_fine(self):
        self.assertEqual(0, self.report("# why\ntest_mr.*two no such thing\n", self.GOOD)[0])

    def test_other_skips_count(self):
        self.assertEqual(1, self.report("", self.GOOD)[0])

    def test_what_is_listed_must_not_pass(self):
        status, text = self.report("test_mr.* nothing works\n", self.GOOD)
        self.assertEqual(1, status)
        self.assertIn("nothing works", text)
        self.assertEqual(0, self.report("?test_mr.* the machine decides\n", self.GOOD)[0])

    def test_no_tests_at_all_is_a_failure(self):
        self.assertEqual(1, self.report("", "Traceback\n")[0])

    def test_the_list_itself_is_well_formed(self):
        here = os.path.dirname(os.path.realpath(__file__))
        for entry in outcomes.read_list(os.path.join(here, "expected-skips.txt")):
            self.assertTrue(entry.pattern.startswith("test_") and entry.reason, entry)


if __name__ == "__main__":
    unittest.main()
