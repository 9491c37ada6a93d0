#!/usr/bin/env python3
"""explain_test.py BUILD: `verbena explain` knows every value that the headers and the sources name, in both languages,
whatever way it is asked; and docs/errors.md is what it says."""

import errno
import os
import re
import subprocess
import unittest

from tool import ENVIRONMENT, ROOT, VERBENA, Case, run

HEADERS = "/usr/include"
KERNELS_OWN = {"ESRCH", "ENOBUFS", "ENOTEMPTY", "ENFILE", "ESHUTDOWN"}
MARK = "<!-- From here on: `verbena explain --markdown`. -->\n"


def explain(*words, **environment):
    return run(VERBENA, "explain", *words, env=dict(ENVIRONMENT, LC_ALL="C", **environment))


def read(*path):
    with open(os.path.join(*path), encoding="utf-8") as file:
        return file.read()


def preprocessed(header, name):
    """The enumeration's (name, value) pairs, comments and all that gone."""
    text = subprocess.run(["cpp", "-P", os.path.join(HEADERS, header)], capture_output=True, text=True, check=True).stdout
    body = re.search(r"enum " + name + r"\s*\{(.*?)\}", text, re.S)[1]
    value, found = -1, []
    for entry in filter(None, (e.strip() for e in body.split(","))):
        parts = entry.split("=")
        value = int(parts[1], 0) if len(parts) > 1 else value + 1
        found.append((parts[0].strip(), value))
    return found


def enumeration(path, name):
    """Values of a C++ enumeration of ours whose entries are all numbered."""
    body = re.search(r"enum class " + name + r"[^{]*\{(.*?)\};", read(ROOT, path), re.S)[1]
    return [int(v, 0) for v in re.findall(r"^\s*\w+ = (0x[0-9a-f]+|\d+)", body, re.M)]


def sources():
    for folder, _, names in os.walk(os.path.join(ROOT, "src")):
        for name in names:
            if name.endswith((".cpp", ".h")) and not name.endswith("_test.cpp"):
                yield read(folder, name)


def table(kind, language):
    """What `explain KIND` lists: {heading: text}."""
    found = {}
    for line in explain("--lang", language, kind).stdout.splitlines():
        if not line.startswith("  "):
            heading = line
        found[heading] = found.get(heading, "") + (line[2:] if line.startswith("  ") else "")
    return found


class Complete(Case):
    def known(self, kind, english, chinese, values, names=None):
        """Every value is there once, with a text in each language."""
        for language, form in (("en", english), ("zh", chinese)):
            texts = table(kind, language)
            for value in values:
                number = form.format(value)
                mine = [h for h in texts if re.search(r"(^|\()" + re.escape(number) + r"($|[):])", h)]
                self.assertEqual(1, len(mine), (kind, value, number))
                text = texts[mine[0]]
                self.assertGreater(len(text), 3, mine)
                self.assertEqual(language == "zh", bool(re.search("[\u4e00-\u9fff]", text)), (mine, text))
                if names:
                    self.assertTrue(mine[0].startswith(names[value] + " ("), mine)

    def known_enumeration(self, kind, english, chinese, header, name):
        entries = preprocessed(header, name)
        self.assertGreater(len(entries), 10)
        self.known(kind, english, chinese, [v for _, v in entries], {v: n for n, v in entries})

    def test_completion_statuses(self):
        self.known_enumeration("wc", "completion status {}", "完成状态 {}", "infiniband/verbs.h", "ibv_wc_status")

    def test_asynchronous_events(self):
        self.known_enumeration("async", "asynchronous event {}", "异步事件 {}", "infiniband/verbs.h", "ibv_event_type")

    def test_connection_events(self):
        self.known_enumeration("event", "connection manager event {}", "连接管理事件 {}", "rdma/rdma_cma.h",
                               "rdma_cm_event_type")

    def test_vendor_errors(self):
        values = enumeration("src/transport/vendor_error.h", "VendorError")
        self.assertGreater(len(values), 50)
        self.known("vendor_err", "vendor_err 0x{0:04x} ({0})", "vendor_err 0x{0:04x}（{0}）", values)
        self.assertNotIn(": ?", explain("vendor_err").stdout)

    def test_reject_reasons(self):
        self.assertLessEqual(set(enumeration("src/wire/cm_messages.h", "RejReason")), set(range(1, 36)))
        self.known("reject", "reject reason {}", "拒绝原因 {}", range(1, 36))

    def test_sidr_statuses(self):
        self.known("sidr", "SIDR status {}", "SIDR 状态 {}", enumeration("src/wire/cm_messages.h", "SidrStatus"))

    def test_naks(self):
        values = enumeration("src/wire/packet.h", "NakCode")
        self.assertEqual(5, len(values))
        self.known("nak", "NAK code {}", "NAK 代码 {}", values)

    def test_syndromes(self):
        for value, text in ((0x1f, "ACK"), (0x2c, "0.64 ms"), (0x62, "remote access error")):
            self.assertIn(text, explain("syndrome", hex(value)).stdout)

    def test_every_errno_of_the_sources(self):
        names = set()
        for text in sources():
            names |= {n for n in re.findall(r"\b(E[A-Z0-9]{3,})\b", text) if hasattr(errno, n)}
        self.assertGreater(len(names), 25)
        # Those that the kernel says to us, and no program is told.
        names -= KERNELS_OWN
        self.known("errno", "errno {}", "errno {}", [getattr(errno, n) for n in names])

    def test_every_errno_of_every_call(self):
        names = set()
        for room in ("verbs", "rdmacm"):
            names |= set(re.findall(r"^((?:ibv|rdma)_\w+) ", read(ROOT, "src", room, "abi/symbols.txt"), re.M))
        self.assertGreater(len(names), 120)
        special = set(re.findall(r"^= call (\w+)", read(ROOT, "src/meanings/texts/calls.txt"), re.M))
        events = {n for n, _ in preprocessed("rdma/rdma_cma.h", "rdma_cm_event_type")}
        inline = {"ibv_post_send", "ibv_post_recv", "ibv_poll_cq"}  # functions of the headers
        self.assertEqual(set(), special - names - events - inline)
        for name in sorted(names)[::20]:  # the general texts serve all calls
            self.assertIn("VERBENA_LOG", explain(name, "EINVAL").stdout + explain("EINVAL").stdout)
            self.assertEqual(0, explain(name, "ENOMEM").returncode)


class Asked(Case):
    def test_ways_of_asking(self):
        expected = explain("IBV_WC_RETRY_EXC_ERR").stdout
        for words in (["wc", "12"], ["status", "12"], ["ibv_wc_retry_exc_err"], ["RETRY_EXC_ERR"], ["wc", "0xc"],
                      ["wc 12"], ["status: 12"]):
            self.assertEqual(expected, explain(*words).stdout, words)
        self.assertEqual(explain("errno", "EINVAL").stdout, explain("-22").stdout)
        self.assertEqual(explain("ibv_modify_qp", "EINVAL").stdout, explain("ibv_modify_qp", "22").stdout)
        self.assertIn("is_global", explain("ibv_modify_qp", "EINVAL").stdout)

    def test_a_bare_number_has_several_meanings(self):
        text = explain("12").stdout
        for line in ("IBV_WC_RETRY_EXC_ERR (completion status 12)", "ENOMEM (errno 12)", "reject reason 12"):
            self.assertIn(line, text)

    def test_statuses_of_events(self):
        self.assertIn("rdma_reject()", explain("RDMA_CM_EVENT_REJECTED", "28").stdout)
        self.assertIn("rdma_reject()", explain("RDMA_CM_EVENT_REJECTED, 28").stdout)
        self.assertIn("4791", explain("RDMA_CM_EVENT_UNREACHABLE", "-110").stdout)
        self.assertIn("routing table", explain("ADDR_ERROR", "-101").stdout)

    def test_status_and_vendor_error_together(self):
        text = explain("IBV_WC_REM_ACCESS_ERR", "0x0212").stdout
        self.assertIn("completion status 10", text)
        self.assertIn("vendor_err 0x0212", text)

    def test_kinds_in_capitals(self):
        self.assertEqual(explain("wc", "12").stdout, explain("WC", "12").stdout)
        self.assertIn("IBV_WC_RETRY_EXC_ERR", explain("WC", "12").stdout)

    def test_numbers_that_none_can_be(self):
        """4294967308 is 12 in 32 bits."""
        for words in (("wc", "4294967308"), ("4294967308",), ("-2147483648",), ("syndrome", "4294967296")):
            self.assertEqual((1, ""), (explain(*words).returncode, explain(*words).stdout), words)

    def test_values_that_a_kind_does_not_have(self):
        """They are not looked for elsewhere."""
        for kind, number in (("wc", "-1"), ("wc", "99"), ("event", "-1"), ("async", "1000"), ("syndrome", "300")):
            result = explain(kind, number)
            self.assertEqual((1, "", f"verbena: there is no {kind} {number}\n"),
                             (result.returncode, result.stdout, result.stderr))

    def test_languages_that_there_are(self):
        for words in (("explain", "--lang", "fr", "wc", "1"), ("report", "--lang", "fr", "none.vrec")):
            result = run(VERBENA, *words)
            self.assertEqual((2, ""), (result.returncode, result.stdout))
            self.assertIn("fr is neither en nor zh", result.stderr)

    def test_words(self):
        self.assertIn("IBV_WC_REM_ACCESS_ERR", explain("remote", "access").stdout)
        self.assertIn("vendor_err", explain("flushed: the queue pair is in the error state").stdout)

    def test_language_of_the_environment(self):
        for name in ("LC_ALL", "LC_MESSAGES", "LANG"):
            values = dict(ENVIRONMENT, **{name: "zh_CN.UTF-8"})
            for other in {"LC_ALL", "LC_MESSAGES", "LANG"} - {name}:
                values.pop(other, None)
            self.assertIn("拒绝原因", run(VERBENA, "explain", "reject", "28", env=values).stdout)

    def test_what_nobody_knows(self):
        result = explain("quetzalcoatl")
        self.assertEqual((1, ""), (result.returncode, result.stdout))
        self.assertIn("quetzalcoatl", result.stderr)
        self.assertEqual(2, explain().returncode)


class Documented(Case):
    def test_the_page_is_what_it_says(self):
        page = os.path.join(ROOT, "docs/errors.md")
        text, said = read(page), explain("--markdown").stdout
        self.assertIn(MARK, text)
        if os.environ.get("WRITE"):
            with open(page, "w", encoding="utf-8") as file:
                file.write(text.split(MARK)[0] + MARK + said)
            return
        self.assertTrue(said == text.split(MARK)[1], "write it anew: WRITE=1 tests/tool/explain_test.py build")


if __name__ == "__main__":
    unittest.main()
