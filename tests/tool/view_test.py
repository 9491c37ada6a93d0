#!/usr/bin/env python3
"""view_test.py BUILD: what `verbena run` shows of the devices in sysfs, /dev and the rdma command, to programs of several
kinds, and that those which do not look see no difference."""

import json
import os
import shutil
import sys
import unittest

from tool import BUILD, ENVIRONMENT, LIBRARIES, VERBENA, Case, preloadable, run

VIEW = os.path.join(LIBRARIES, "libverbena-view.so")
CLASS = "/sys/class/infiniband"

# Every call that a C program may look with, by what it takes; prints those that see nothing.
LOOK = r"""
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>
#define SEES(call) if (!(call)) { printf("%s\n", #call); bad = 1; }
int main(int argc, char** argv) {
    const char* file = argv[1];    /* a file */
    const char* folder = argv[2];  /* its folder */
    const char* pattern = argv[3];
    const char* link = argv[4];    /* a link */
    int bad = 0;
    struct stat s; struct stat64 s64; struct statx x; struct statfs f; struct dirent** list; glob_t g; char text[4096];
    SEES(open(file, O_RDONLY) >= 0); SEES(open64(file, O_RDONLY) >= 0); SEES(openat(AT_FDCWD, file, O_RDONLY) >= 0);
    SEES(openat64(AT_FDCWD, file, O_RDONLY) >= 0); SEES(fopen(file, "r")); SEES(fopen64(file, "re"));
    SEES(stat(file, &s) == 0 && S_ISREG(s.st_mode) && s.st_size > 0); SEES(stat64(file, &s64) == 0);
    SEES(lstat(link, &s) == 0 && S_ISLNK(s.st_mode)); SEES(lstat64(link, &s64) == 0 && S_ISLNK(s64.st_mode));
    SEES(fstatat(AT_FDCWD, file, &s, 0) == 0); SEES(fstatat64(AT_FDCWD, file, &s64, 0) == 0);
    SEES(statx(AT_FDCWD, file, 0, STATX_ALL, &x) == 0); SEES(statfs(folder, &f) == 0);
    SEES(access(file, R_OK) == 0); SEES(eaccess(file, R_OK) == 0); SEES(euidaccess(file, R_OK) == 0);
    SEES(faccessat(AT_FDCWD, file, R_OK, 0) == 0);
    SEES(opendir(folder)); SEES(scandir(folder, &list, 0, alphasort) > 2); SEES(readlink(link, text, sizeof text) > 0);
    SEES(readlinkat(AT_FDCWD, link, text, sizeof text) > 0);
    SEES(glob(pattern, 0, 0, &g) == 0 && g.gl_pathc > 0 && strncmp(g.gl_pathv[0], "/sys/class/", 11) == 0);
    SEES(realpath(link, text) && strncmp(text, "/sys/devices/virtual/infiniband/", 32) == 0);
    SEES(realpath(link, 0)); SEES(canonicalize_file_name(link));
    SEES(chdir(link) == 0 && getcwd(text, sizeof text) && strncmp(text, "/sys/devices/virtual/infiniband/", 32) == 0);
    SEES(access("ports/1/state", R_OK) == 0);
    SEES(stat("/dev/infiniband/rdma_cm", &s) == 0 && S_ISCHR(s.st_mode));
    SEES(open("/dev/infiniband/rdma_cm", O_RDWR | O_CLOEXEC) >= 0);
    return bad;
}
"""


def under(*command, **options):
    return run(VERBENA, "run", "--", *command, **options)


class View(Case):
    def devices(self):
        """The names that ibv_get_device_list has, in its order, by an ordinary program."""
        return [link["ifname"] for link in json.loads(under("rdma", "link", "-j").stdout)]

    def test_the_folder_lists_the_devices(self):
        names = self.devices()
        self.assertIn("verbena_lo", names)
        self.assertEqual(sorted(names), sorted(under("ls", CLASS).stdout.split()))
        self.assertEqual("", under("ls", "-lR", CLASS, "/dev/infiniband").stderr)

    def test_every_call_of_the_c_library(self):
        for flags in (("-O0",), ("-O2", "-D_FORTIFY_SOURCE=2"), ("-O2", "-D_FILE_OFFSET_BITS=64")):
            program = self.compile("look", LOOK, *flags)
            result = under(program, f"{CLASS}/verbena_lo/ports/1/state", f"{CLASS}/verbena_lo/ports/1",
                           f"{CLASS}/*/ports/1/state", f"{CLASS}/verbena_lo")
            self.assertEqual((0, ""), (result.returncode, result.stdout), flags)

    def test_shells(self):
        for shell in ("sh", "bash"):
            result = under(shell, "-c", f"cat {CLASS}/verbena_l*/ports/1/state; cd -P {CLASS}/verbena_lo && /bin/pwd && cat ports/1/pkeys/0")
            self.assertEqual("4: ACTIVE\n/sys/devices/virtual/infiniband/verbena_lo\n0xffff\n", result.stdout, result.stderr)

    def test_python(self):
        script = (f"import glob, os, pathlib; print(sorted(os.listdir('{CLASS}')) == sorted(os.path.basename(p) for p in glob.glob('{CLASS}/*')),"
                  f"os.path.realpath('{CLASS}/verbena_lo'), pathlib.Path('{CLASS}/verbena_lo/ports/1/link_layer').read_text().strip(),"
                  f"os.path.exists('{CLASS}/nobody'))")
        self.assertEqual("True /sys/devices/virtual/infiniband/verbena_lo Ethernet False\n",
                         under("/usr/bin/python3", "-c", script).stdout)

    def test_the_network_interface_is_found(self):
        self.assertEqual("lo\n", under("ls", f"{CLASS}/verbena_lo/device/net/").stdout)
        lo = [link for link in json.loads(under("rdma", "link", "show", "-j").stdout) if link["netdev"] == "lo"]
        with open("/sys/class/net/lo/ifindex", encoding="ascii") as file:
            self.assertEqual([("verbena_lo", 1, "ACTIVE", int(file.read()))],
                             [(link["ifname"], link["port"], link["state"], link["netdev_index"]) for link in lo])

    def test_names_are_the_programs(self):
        settings = dict(ENVIRONMENT, VERBENA_DEVICE="lo=mlx5_7")
        self.assertEqual("Ethernet\n", under("cat", f"{CLASS}/mlx5_7/ports/1/link_layer", env=settings).stdout)
        self.assertIn("mlx5_7/1", under("rdma", "link", env=settings).stdout)

    def test_gids_agree_with_the_library(self):
        result = under("bash", "-c", f"cat {CLASS}/verbena_lo/ports/1/gids/0 {CLASS}/verbena_lo/ports/1/gid_attrs/types/0")
        self.assertRegex(result.stdout, r"\A([0-9a-f]{4}:){7}[0-9a-f]{4}\nRoCE v2\n\Z")

    def test_nothing_stays_open(self):
        script = f"cat < /dev/null; exec 3< {CLASS}/verbena_lo/node_guid; ls /proc/$$/fd"
        plain = run("bash", "-c", "exec 3< /dev/null; ls /proc/$$/fd").stdout
        self.assertEqual(plain, under("bash", "-c", script).stdout)

    def test_the_host_is_left_alone(self):
        self.assertNotIn("verbena_lo", run("ls", "/sys/class/infiniband").stdout)

    def test_attributes_cannot_be_written(self):
        script = f"(echo x > {CLASS}/verbena_lo/node_desc) 2>/dev/null; echo $?; cat {CLASS}/verbena_lo/node_desc"
        for shell in ("sh", "bash"):
            status, text = under(shell, "-c", script).stdout.splitlines()
            self.assertNotEqual("0", status)
            self.assertEqual("verbena_lo", text)
        script = f"open('{CLASS}/verbena_lo/node_desc', 'r+')"
        self.assertIn("PermissionError", under("/usr/bin/python3", "-c", script).stderr)

    def test_it_can_be_switched_off(self):
        result = under("printenv", "LD_PRELOAD", "PATH", env=dict(ENVIRONMENT, VERBENA_DISABLE="view"))
        self.assertEqual(ENVIRONMENT["PATH"] + "\n", result.stdout)


class Preload(Case):
    def test_it_defines_nothing_but_the_c_librarys_names(self):
        def defined(library):
            text = run("nm", "-D", "--defined-only", library).stdout
            return {line.split()[-1].split("@")[0] for line in text.splitlines()}
        libc = [line.split()[2] for line in run("ldd", VIEW).stdout.splitlines() if "libc.so" in line]
        self.assertGreater(len(defined(VIEW)), 40)
        self.assertEqual(set(), defined(VIEW) - defined(libc[0]))
        self.assertNotIn("libstdc++", run("ldd", VIEW).stdout)

    def test_the_users_library_stays(self):
        result = under("printenv", "LD_PRELOAD", env=dict(ENVIRONMENT, LD_PRELOAD="libm.so.6"))
        self.assertEqual(f"{preloadable(VIEW)}:libm.so.6\n", result.stdout)

    def test_inside_itself(self):
        once = under("printenv", "LD_PRELOAD", "PATH", "ASAN_OPTIONS").stdout
        self.assertEqual(once, under(VERBENA, "run", "--", "printenv", "LD_PRELOAD", "PATH", "ASAN_OPTIONS").stdout)

    def test_a_folder_with_a_space(self):
        folder = os.path.join(self.folder, "a build")
        os.makedirs(os.path.join(folder, "bin"))
        os.symlink(LIBRARIES, os.path.join(folder, "lib"))
        for name in ("verbena", "verbenad"):
            shutil.copy(os.path.join(BUILD, "bin", name), os.path.join(folder, "bin"))
        result = run(os.path.join(folder, "bin/verbena"), "run", "--", "ls", CLASS)
        self.assertIn("verbena_lo", result.stdout)
        self.assertEqual("", result.stderr)

    def test_sanitized_programs_start(self):
        program = self.compile("sanitized", "int main(void) { return 0; }", "-fsanitize=address")
        result = under("sh", "-c", program)
        self.assertEqual((0, ""), (result.returncode, result.stderr))

    def test_a_program_that_does_not_look_starts_no_daemon(self):
        settings = dict(ENVIRONMENT, VERBENA_FABRIC=f"quiet-{os.getpid()}")
        under("bash", "-c", "ls /sys/class/net /dev; cat /proc/self/status", env=settings)
        with open("/proc/net/unix", encoding="ascii") as file:
            self.assertNotIn(settings["VERBENA_FABRIC"], file.read())


class Rdma(Case):
    """The vocabulary is iproute2's."""

    def test_links(self):
        for words in (("link",), ("link", "show"), ("l", "li"), ("link", "show", "verbena_lo"), ("link", "show", "verbena_lo/1")):
            self.assertIn("link verbena_lo/1 state ACTIVE physical_state LINK_UP netdev lo \n", under("rdma", *words).stdout)
        self.assertIn("    caps: <CM, IP_BASED_GIDS>\n", under("rdma", "-d", "link").stdout)

    def test_devices(self):
        self.assertRegex(under("rdma", "dev", "show", "verbena_lo").stdout,
                         r"\A\d+: verbena_lo: node_type ca fw \S+ node_guid (\w{4}:){3}\w{4} sys_image_guid (\w{4}:){3}\w{4} \n\Z")
        shown = json.loads(under("rdma", "dev", "-j", "-p").stdout)
        self.assertEqual({"ca"}, {device["node_type"] for device in shown})

    def test_no_such_device(self):
        result = under("rdma", "link", "show", "nobody/1")
        self.assertEqual((1, ""), (result.returncode, result.stdout))

    def test_the_rest_is_the_systems(self):
        self.write("bin/rdma", "#!/bin/sh\necho system \"$@\"\n", 0o755)
        settings = dict(ENVIRONMENT, PATH=os.path.join(self.folder, "bin") + ":" + ENVIRONMENT["PATH"])
        for words in (("system",), ("-V",), ("link", "add", "rxe0", "type", "rxe", "netdev", "lo"), ("system", "show", "-j")):
            self.assertEqual(f"system {' '.join(words)}\n", under("rdma", *words, env=settings).stdout)

    def test_no_other_rdma(self):
        result = under("rdma", "system", env=dict(ENVIRONMENT, PATH=self.folder))
        self.assertEqual((1, 1), (result.returncode, result.stderr.count("\n")))


if __name__ == "__main__":
    unittest.main(argv=sys.argv)
