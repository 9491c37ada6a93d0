#!/usr/bin/env python3
"""tutorial_test.py BUILD: the tutorial's pictures are what its programs do now: drawn anew, they have the same calls, events and
states at each side and the same messages between them. Numbers differ from run to run, and so does how two sides interleave.
Both languages have the same pages, pictures and commands."""

import collections
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree as ElementTree

ROOT = pathlib.Path(__file__).resolve().parents[2]
TUTORIAL = ROOT / "docs/tutorial"
BUILD = pathlib.Path(sys.argv.pop(1)).resolve() if len(sys.argv) > 1 else ROOT / "build"
TEXT = "{http://www.w3.org/2000/svg}text"
MESSAGES = ("REQ", "REP", "RTU", "REJ", "DREQ", "DREP")
IMAGE = re.compile(r"!\[[^]]+\]\(([^)]+)\)")


def normal(words):
    return re.sub(r"0x[0-9a-f]+|\d+", "N", words)


def structure(picture):
    """What each side did, each state by itself; the messages in the order in which they first come; kinds of requests."""
    sides, messages, requests = {"start": collections.Counter(), "end": collections.Counter()}, [], set()
    for text in ElementTree.parse(picture).getroot().iter(TEXT):
        kinds, words = text.get("class").split(), text.text
        if "transition" in kinds:
            states = words.removeprefix("QP ").split(" → ")
            for pair in zip(states, states[1:]):
                sides[text.get("text-anchor")][" → ".join(pair)] += 1
        elif "call" in kinds or "event" in kinds:
            sides[text.get("text-anchor")][normal(words)] += 1
        elif "message" in kinds and words in MESSAGES and words not in messages:
            messages.append(words)
        elif "opcode" in kinds and not words.startswith("rc_ack") and "(" not in words:
            requests.add(words)
    return sides, messages, requests


class Tutorial(unittest.TestCase):
    maxDiff = None

    def test_pictures(self):
        there = {path.name: path for path in (TUTORIAL / "pictures").glob("*.svg")}
        self.assertGreater(len(there), 10)
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([ROOT / "scripts/tutorial-pictures", BUILD, folder], check=True, timeout=120)
            drawn = {path.name: path for path in pathlib.Path(folder).glob("*.svg")}
            self.assertEqual(sorted(there), sorted(drawn))
            for name, path in there.items():
                with self.subTest(picture=name):
                    self.assertEqual(structure(path), structure(drawn[name]), "scripts/tutorial-pictures draws it anew")
                    self.assertLess(path.stat().st_size, 40_000)

    def test_both_languages(self):
        pages = sorted(path.name for path in TUTORIAL.glob("*.md"))
        self.assertEqual(pages, sorted(path.name for path in (TUTORIAL / "zh").glob("*.md")))
        shown = set()
        for page in pages:
            english, chinese = ((folder / page).read_text("utf-8") for folder in (TUTORIAL, TUTORIAL / "zh"))
            images = [IMAGE.findall(text) for text in (english, chinese)]
            self.assertEqual([f"../{path.removesuffix('.svg')}.zh.svg" for path in images[0]], images[1], page)
            shown |= {pathlib.PurePath(path).name for path in images[0] + images[1]}
            commands = [re.findall(r"^(verbena [^#\n]*?)\s*(?:#.*)?$", text.replace("--lang zh ", ""), re.M) for text in (english, chinese)]
            self.assertEqual(*commands, page)
            self.assertEqual(*[len(re.findall(r"^#+ ", text, re.M)) for text in (english, chinese)], page)
            self.assertEqual(*[len(re.findall(r"^(?:- |\d+\. |\|)", text, re.M)) for text in (english, chinese)], page)
        self.assertEqual(shown, {path.name for path in (TUTORIAL / "pictures").glob("*.svg")})


if __name__ == "__main__":
    unittest.main()
