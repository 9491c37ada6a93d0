"""What the tests of the command share: where the build is, running things, compiling little C programs."""

import os
import struct
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
BUILD = os.path.abspath(sys.argv.pop(1)) if len(sys.argv) > 1 else os.path.join(ROOT, "build")
VERBENA = os.path.join(BUILD, "bin/verbena")
LIBRARIES = os.path.join(BUILD, "lib")

# As if started from a plain shell, whatever this test runs under; a fabric of its own.
ENVIRONMENT = {name: value for name, value in os.environ.items()
               if not name.startswith("VERBENA_") and name not in ("LD_LIBRARY_PATH", "LIBRARY_PATH")}
ENVIRONMENT["VERBENA_FABRIC"] = f"tool-test-{os.getpid()}"

# Says where a libibverbs call comes from, and how many devices it shows.
WHOSE = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>
int main(void) {
    Dl_info verbs, cm;
    int devices = 0;
    struct ibv_device** list = ibv_get_device_list(&devices);
    if (!list) { perror("ibv_get_device_list"); return 1; }
    ibv_free_device_list(list);
    struct rdma_event_channel* channel = rdma_create_event_channel();
    if (!channel) { perror("rdma_create_event_channel"); return 1; }
    rdma_destroy_event_channel(channel);
    if (!dladdr(dlsym(RTLD_DEFAULT, "ibv_get_device_list"), &verbs)) return 2;
    if (!dladdr(dlsym(RTLD_DEFAULT, "rdma_create_id"), &cm)) return 2;
    printf("%s %s %s\n", verbs.dli_fname, cm.dli_fname, devices > 0 ? "devices" : "none");
    return 0;
}
"""


def preloadable(library):
    """As LD_PRELOAD names it, which takes no spaces."""
    return os.path.basename(library) if " " in library else library


def run(*command, **options):
    """A finished command with its text; 60 s at most."""
    options.setdefault("env", ENVIRONMENT)
    options.setdefault("stdin", None if "input" in options else subprocess.DEVNULL)
    if "input" in options:
        del options["stdin"]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, **options)


ENHANCED_PACKET = 6  # a pcapng block


def packets(file):
    """The IPv4 packets of a pcapng file of raw IP."""
    with open(file, "rb") as capture:
        data = capture.read()
    at = 0
    while at + 12 <= len(data):
        kind, length = struct.unpack_from("<II", data, at)
        if kind == ENHANCED_PACKET:
            (size,) = struct.unpack_from("<I", data, at + 20)
            yield data[at + 28:at + 28 + size]
        at += length


class Case(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="verbena-tool-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def write(self, name, text, mode=0o644):
        path = os.path.join(self.folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(path, mode)
        return path

    def compile(self, name, source, *flags):
        path = os.path.join(self.folder, name)
        result = run("cc", "-o", path, self.write(name + ".c", source), *flags)
        self.assertEqual(0, result.returncode, result.stderr)
        return path

    def compile_file(self, name, *flags):
        """NAME.c of this folder."""
        folder = os.path.dirname(os.path.realpath(__file__))
        with open(os.path.join(folder, name + ".c"), encoding="utf-8") as source:
            return self.compile(name, source.read(), "-I" + folder, *flags)

    def wait_for_listener(self, port):
        for _ in range(200):
            if port in run(VERBENA, "run", "--", "rdma", "resource", "show", "cm_id").stdout:
                return
            time.sleep(0.1)
        self.fail(f"nobody listens on port {port}")
