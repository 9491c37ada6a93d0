#!/usr/bin/env python3
"""install_test.py BUILD: an installation in a folder of its own builds and runs programs with plain -lrdmacm -libverbs,
and leaves nothing behind; `eval "$(verbena env)"` does the same for a shell."""

import os
import pathlib
import re
import shutil
import sys
import unittest

from tool import BUILD, ENVIRONMENT, LIBRARIES, ROOT, VERBENA, WHOSE, Case, run

MAKEFILE = "LDLIBS = -lrdmacm -libverbs -ldl\nwhose: whose.c\n"
# What a program that asks for reasons is built with.
ASKING = WHOSE.replace("#include <dlfcn.h>", "#include <verbena.h>").replace("return 0;", "return *verbena_last_reason();")


class Environment(Case):
    def test_shells(self):
        self.write("whose.c", WHOSE)
        self.write("Makefile", MAKEFILE)
        for shell in ("bash", "dash"):
            result = run(shell, "-ec", f"eval $('{VERBENA}' env); make -s -B whose; ./whose", cwd=self.folder)
            self.assertEqual(f"{LIBRARIES}/libibverbs.so.1 {LIBRARIES}/librdmacm.so.1 devices\n", result.stdout,
                             result.stderr)

    def test_options_and_quoting(self):
        result = run("sh", "-ec", f"eval $('{VERBENA}' env --log 'debug,file=/tmp/it'\\''s $(x)'); printenv VERBENA_LOG")
        self.assertEqual("debug,file=/tmp/it's $(x)\n", result.stdout, result.stderr)


class Installation(Case):
    def setUp(self):
        super().setUp()
        # The list of what a user installed from this build is not ours to replace.
        self.manifest = os.path.join(BUILD, "install_manifest.txt")
        if os.path.exists(self.manifest):
            kept = os.path.join(self.folder, "manifest")
            shutil.copy2(self.manifest, kept)
            self.addCleanup(shutil.copy2, kept, self.manifest)  # before the folder goes
        self.prefix = os.path.join(self.folder, "a prefix", "verbena")
        result = run("cmake", "--install", BUILD, "--prefix", self.prefix)
        self.assertEqual(0, result.returncode, result.stderr)

    def files(self):
        return sorted(os.path.relpath(os.path.join(at, name), self.prefix)
                      for at, _, names in os.walk(self.prefix) for name in names)

    def test_a_program_is_built_and_runs(self):
        self.write("work/whose.c", ASKING)
        self.write("work/Makefile", MAKEFILE)
        work = os.path.join(self.folder, "work")
        verbena = os.path.join(self.prefix, "bin/verbena")
        built = run(verbena, "run", "--", "make", "-s", "whose", cwd=work)
        self.assertEqual((0, ""), (built.returncode, built.stderr))
        ran = run(verbena, "run", "--", "./whose", cwd=work)
        folder = os.path.join(self.prefix, "lib/verbena")
        self.assertEqual(f"{folder}/libibverbs.so.1 {folder}/librdmacm.so.1 devices\n", ran.stdout, ran.stderr)

    def test_the_libraries_find_their_daemon(self):
        """By themselves, for programs that throw their environment away."""
        settings = {"LD_LIBRARY_PATH": os.path.join(self.prefix, "lib/verbena"), "PATH": os.environ["PATH"],
                    "VERBENA_FABRIC": ENVIRONMENT["VERBENA_FABRIC"] + "-bare"}
        result = run("ibv_devinfo", "-l", env=settings)
        self.assertEqual((0, ""), (result.returncode, result.stderr))
        self.assertIn("verbena_lo", result.stdout)

    def test_the_system_is_left_alone(self):
        installed = self.files()
        for file in ("bin/verbena", "libexec/verbena/verbenad", "lib/verbena/libibverbs.so.1", "lib/verbena/librdmacm.so.1",
                     "lib/verbena/include/verbena.h"):
            self.assertIn(file, installed)
        # Nothing in a folder that a loader or compiler searches by itself, were the prefix / or /usr.
        self.assertEqual([], [f for f in installed if f.startswith(("lib/lib", "include/"))])
        with open(self.manifest, encoding="utf-8") as manifest:
            outside = [line for line in manifest if not line.startswith(self.prefix + "/")]
        self.assertEqual([], outside)

    def test_links_of_the_texts(self):
        """All but those to what only the sources have."""
        folder = pathlib.Path(self.prefix, "share/doc/verbena")
        count = 0
        for text in folder.rglob("*.md"):
            for target in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"```.*?```", "", text.read_text("utf-8"), flags=re.DOTALL)):
                path = os.path.normpath(text.parent / target.partition("#")[0])
                if re.match(r"[a-z]+:|#", target) or path.startswith((f"{folder}/src/", f"{folder}/tests/")):
                    continue
                self.assertTrue(os.path.exists(path), f"{text.relative_to(folder)} links to {target}")
                count += 1
        self.assertGreater(count, 100)

    def test_uninstall_leaves_no_file(self):
        mine = self.write("a prefix/of the user", "stays\n")
        result = run("sh", os.path.join(ROOT, "scripts/uninstall"), BUILD)
        self.assertEqual(0, result.returncode, result.stderr)
        self.assertFalse(os.path.exists(self.prefix), self.files())
        self.assertTrue(os.path.exists(mine))
        self.assertFalse(os.path.exists(self.manifest))

    def test_uninstall_stops_at_the_prefix(self):
        # The folder that holds the prefix stays, though it is empty now: it may be /opt.
        run("sh", os.path.join(ROOT, "scripts/uninstall"), BUILD)
        self.assertEqual([], os.listdir(os.path.dirname(self.prefix)))

    def test_uninstall_of_one_of_two(self):
        other = os.path.join(self.folder, "other")
        self.assertEqual(0, run("cmake", "--install", BUILD, "--prefix", other).returncode)
        self.assertEqual(0, run("sh", os.path.join(ROOT, "scripts/uninstall"), BUILD, self.prefix).returncode)
        self.assertFalse(os.path.exists(self.prefix))
        self.assertEqual(0, run("sh", os.path.join(ROOT, "scripts/uninstall"), BUILD).returncode)
        self.assertFalse(os.path.exists(other))

    def test_uninstall_keeps_what_the_user_added(self):
        mine = self.write("a prefix/verbena/lib/verbena/mine", "stays\n")
        run("sh", os.path.join(ROOT, "scripts/uninstall"), BUILD)
        self.assertEqual(["lib/verbena/mine"], self.files())
        self.assertTrue(os.path.exists(mine))


if __name__ == "__main__":
    unittest.main(argv=sys.argv)
