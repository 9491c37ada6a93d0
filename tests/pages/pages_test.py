#!/usr/bin/env python3
"""pages_test.py BUILD: the pages of `verbena report` in Chromium: in a window and on a telephone, light and dark, in English
and Chinese. Nothing on the console, nothing asked of a network, nothing that sticks out; a click shows a packet, filters
filter. Pictures of all go to BUILD/pages, to be looked at."""

import os
import re
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "../tool"))

# pylint: disable=wrong-import-position
from browser import Browser
from recordings import NASTY, Recordings, cm_attribute, line, packet_line
from tool import BUILD, VERBENA, run

SIZES = {"window": (1280, 900), "telephone": (375, 720)}
LONG = "a_word_without_a_blank_" * 12

# Elements and letters that stick out of the window, or out of the picture that they belong to.
STICKS_OUT = """(() => {
  const found = [];
  const width = document.documentElement.clientWidth;
  if (document.documentElement.scrollWidth > width) found.push("the page: " + document.documentElement.scrollWidth);
  for (const one of document.querySelectorAll("body *:not(svg *)")) {
    const box = one.getBoundingClientRect();
    if (box.width && (box.right > width + 1 || box.left < -1) && !one.closest(".scroll")) found.push(one.tagName + " " + one.className + " " + box.right);
  }
  for (const text of document.querySelectorAll("svg.ladder text")) {
    const box = text.getBBox(), picture = text.ownerSVGElement.viewBox.baseVal;
    if (box.width && (box.x < -1 || box.x + box.width > picture.width + 1)) found.push(text.textContent);
  }
  return found;
})()"""

# Pairs of texts of a ladder that lie on each other.
OVERLAPS = """(() => {
  const found = [];
  for (const picture of document.querySelectorAll("svg.ladder")) {
    const boxes = [...picture.querySelectorAll("text")].map((text) => [text.getBBox(), text.textContent]).filter(([box]) => box.width);
    boxes.forEach(([a, words], i) => {
      for (const [b, other] of boxes.slice(i + 1, i + 14))
        if (a.x + 1 < b.x + b.width && b.x + 1 < a.x + a.width && a.y + 4 < b.y + b.height && b.y + 4 < a.y + a.height)
          found.push(words + " | " + other);
    });
  }
  return found;
})()"""

# Contrast of words with what is behind them (WCAG 2: 4.5 for text of this size).
FAINT = """(() => {
  const light = (colour) => {
    const parts = colour.match(/[\\d.]+/g).slice(0, 3).map((part) => { const c = part / 255; return c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4; });
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2];
  };
  const behind = (one) => { for (; one; one = one.parentElement) { const c = getComputedStyle(one).backgroundColor; if (!/, 0\\)$/.test(c)) return c; } return "rgb(255, 255, 255)"; };
  const found = new Set();
  for (const one of document.querySelectorAll("p, td, th, a, h2, code, svg.ladder text")) {
    const style = getComputedStyle(one), colour = one.ownerSVGElement ? style.fill : style.color;
    const [a, b] = [light(colour), light(behind(one))].sort((x, y) => y - x);
    if ((a + 0.05) / (b + 0.05) < 4.5) found.add(one.tagName + "." + (one.className.baseVal ?? one.className) + " " + colour + " on " + behind(one));
  }
  return [...found];
})()"""


class Pages(Recordings):
    @classmethod
    def setUpClass(cls):
        cls.browser = Browser()
        cls.pictures = os.path.join(BUILD, "pages")
        os.makedirs(cls.pictures, exist_ok=True)

    @classmethod
    def tearDownClass(cls):
        cls.browser.close()

    def page(self, language, *files):
        path = os.path.join(self.folder, f"{language}.html")
        result = run(VERBENA, "report", "--lang", language, "-o", path, *files)
        self.assertEqual(0, result.returncode, result.stderr)
        return path

    def everywhere(self, name, *files):
        """Opens the page in every way, looks at what must hold of any, and yields it."""
        for language in ("en", "zh"):
            path = self.page(language, *files)
            for size, (width, height) in SIZES.items():
                for scheme in ("light", "dark"):
                    with self.subTest(language=language, size=size, scheme=scheme):
                        self.browser.open(path, width, height, scheme)
                        self.assertEqual([], self.browser.complaints())
                        self.assertEqual([], self.browser.value(STICKS_OUT))
                        self.assertEqual([], self.browser.value(OVERLAPS))
                        self.assertEqual([], self.browser.value(FAINT))
                        self.browser.picture(os.path.join(self.pictures, f"{name}-{language}-{size}-{scheme}.png"))
                        yield size
                        self.assertEqual([], self.browser.complaints())

    def run_of_rping(self):
        """Its packets, and calls as its client makes them."""
        frames = self.rping()
        request = next(frame for frame in frames if cm_attribute(frame) == 0x10)
        qpn = int.from_bytes(request[72 + 32:72 + 35], "big")
        states = [("", "RESET"), ("RESET", "INIT"), ("INIT", "RTR"), ("RTR", "RTS"), ("RTS", "ERR"), ("ERR", "")]
        lines = [packet_line(frame, 1_000_000 + i * 50_000) for i, frame in enumerate(frames)]
        lines += [line("qp", 900_000 + i * 40_000, qp=qpn, **{"from": begin}, to=end) for i, (begin, end) in enumerate(states)]
        calls = ["rdma_create_event_channel", "rdma_create_id", "rdma_resolve_addr", "rdma_resolve_route", "rdma_create_qp"]
        lines += [line("call", i * 90_000, d=2500, call=call, args={"id": "id 1", "dst_addr": "127.0.0.1:7471"}, ret=0)
                  for i, call in enumerate(calls)]
        return self.write_lines("run.vrec", line("process", argv=["rping", "-c", "-a", "127.0.0.1"], host="left"), *lines,
                                line("wc", 1_500_000, qp=qpn, wr_id="0x0", status="success", opcode="IBV_WC_SEND"))

    def test_a_run(self):
        for size in self.everywhere("run", self.run_of_rping()):
            wide, narrow = (self.browser.value(f"getComputedStyle(document.querySelector('svg.{kind}')).display")
                            for kind in ("wide", "narrow"))
            self.assertEqual(("block", "none") if size == "window" else ("none", "block"), (wide, narrow))
            kind = "wide" if size == "window" else "narrow"
            self.assertTrue(self.browser.value("document.getElementById('detail').hidden"))
            self.browser.value(f"document.querySelector('svg.{kind} g.packet').dispatchEvent(new MouseEvent('click'))")
            detail = self.browser.value("document.getElementById('detail').innerText")
            for words in ("Local CA GUID", "Service ID", "Queue key (Q_Key)", "0x0010 REQ", "Starting PSN"):
                self.assertIn(words, detail)
            self.assertEqual([], self.browser.value(STICKS_OUT))
            self.browser.picture(os.path.join(self.pictures, f"detail-{size}.png"), height=1200)
            self.browser.value("document.querySelector('#detail button').click()")
            self.assertTrue(self.browser.value("document.getElementById('detail').hidden"))

            rows = "document.querySelectorAll('#packets tbody tr').length"
            every = self.browser.value(rows)
            self.browser.value("(() => { const one = document.querySelectorAll('#packets select')[1]; one.value = 'rc_ack';"
                               " one.dispatchEvent(new Event('input')); })()")
            texts = self.browser.value("[...document.querySelectorAll('#packets tbody tr')].map((row) => row.cells[4].innerText)")
            self.assertTrue(0 < len(texts) < every)
            self.assertTrue(all(text.startswith("rc_ack") for text in texts))
            self.assertGreater(self.browser.value("document.querySelectorAll('.lane rect').length"), 3)
            self.assertGreater(self.browser.value("document.querySelectorAll('.plot rect, .plot polyline').length"), 2)

    def test_errors_and_long_words(self):
        lines = [line("process", argv=[NASTY, LONG], host=NASTY),
                 line("call", 1000, call="ibv_modify_qp", args={"qp": "qp 0x11", LONG: LONG}, ret=22, errno="EINVAL",
                      reason="ah_attr.is_global is 0; RoCE needs a GRH " + LONG),
                 line("call", 1000, call=LONG, args={NASTY: NASTY}, ret=NASTY),
                 line("wc", 2000, qp=17, status="IBV_WC_RETRY_EXC_ERR", vendor_err=0x0311, reason=NASTY),
                 line("cm_event", 3000, id="id 1", event="RDMA_CM_EVENT_REJECTED", status=8, reason="nothing listens there"),
                 line("begin", 5000, call="rdma_destroy_id", args={"id": "id 1"})]
        lines += [packet_line(frame, i * 1000, comment=NASTY + LONG) for i, frame in enumerate(self.rping())]
        for _ in self.everywhere("errors", self.write_lines("e.vrec", *lines)):
            self.assertIn(NASTY.split("<!--")[0], self.browser.value("document.getElementById('errors').innerText"))
            rows = "document.querySelectorAll('#calls tbody tr').length"
            every = self.browser.value(rows)
            self.browser.value("document.querySelector('#calls input[type=checkbox]').click()")
            self.assertEqual((3, 2), (every, self.browser.value(rows)))
            self.assertEqual(0, self.browser.value("document.querySelectorAll('main b, main img, main script').length"))

    def test_a_long_run(self):
        data = next(frame for frame in self.rping() if frame[28] == 0x04)
        frames = (data[:37] + psn.to_bytes(3, "big") + data[40:] for psn in range(20_000))
        path = self.page("en", self.write_lines("long.vrec", *[packet_line(frame, i * 1000) for i, frame in enumerate(frames)]))
        self.browser.open(path, 1280, 900, "light")
        self.assertEqual([], self.browser.complaints())
        shown = "document.querySelectorAll('#packets tbody tr').length"
        self.assertEqual(200, self.browser.value(shown))
        self.browser.value("document.querySelector('#packets > button').click()")
        self.assertEqual(400, self.browser.value(shown))
        self.assertRegex(self.browser.value("document.getElementById('packets').innerText"), r"17000 packets of data are not")
        self.assertLess(self.browser.value("performance.now()"), 10_000)

    def test_a_picture_alone(self):
        file = os.path.join(self.folder, "one.svg")
        result = run(VERBENA, "report", "--svg", "-o", file, self.run_of_rping())
        self.assertEqual(0, result.returncode, result.stderr)
        for scheme, paper in (("light", "rgb(255, 255, 255)"), ("dark", "rgb(20, 24, 29)")):
            self.browser.open(file, 1100, 900, scheme)
            self.assertEqual(paper, self.browser.value("getComputedStyle(document.querySelector('.paper')).fill"))
            self.browser.picture(os.path.join(self.pictures, f"svg-{scheme}.png"))
        self.assertTrue(re.search("REQ sent", self.browser.value("document.documentElement.textContent")))


if __name__ == "__main__":
    unittest.main()
