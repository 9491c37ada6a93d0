#!/usr/bin/env python3
"""check_clients.py LIBRARY_DIRECTORY: every stock program and library of this machine that uses the two libraries
resolves completely against ours: ldd -r reports nothing missing, and pyverbs imports with immediate binding.

Exits with 77 (skipped) if the machine has none of them."""
import glob
import os
import re
import shutil
import subprocess
import sys

PROGRAMS = """
    ib_atomic_bw ib_atomic_lat ib_read_bw ib_read_lat ib_send_bw ib_send_lat ib_write_bw ib_write_lat
    raw_ethernet_bw raw_ethernet_lat raw_ethernet_burst_lat raw_ethernet_fs_rate
    ibv_asyncwatch ibv_devices ibv_devinfo ibv_rc_pingpong ibv_srq_pingpong ibv_uc_pingpong ibv_ud_pingpong ibv_xsrq_pingpong
    rping ucmatose udaddy mckey cmtime rdma_client rdma_server rdma_xclient rdma_xserver rcopy riostream rstream udpong
    qperf fio ucx_info fi_info ib_acme qemu-system-x86_64 ceph-osd tgtd
""".split()
LIBRARIES = """
    libmlx5.so.1 libmlx4.so.1 libefa.so.1 libmana.so.1 rsocket/librspreload.so.1 libfabric.so.1 ucx/libuct_ib.so.0
    ucx/libuct_rdmacm.so.0 librpma.so.0
""".split()


def main():
    directory = os.path.abspath(sys.argv[1])
    environment = dict(os.environ, LD_LIBRARY_PATH=directory)
    clients = [path for path in map(shutil.which, PROGRAMS) if path]
    for library in LIBRARIES:
        clients += glob.glob(f"/usr/lib/*/{library}") + glob.glob(f"/usr/lib/{library}")
    pyverbs = sorted(glob.glob("/usr/lib/python3/dist-packages/pyverbs/**/*.so", recursive=True))

    problems, used = [], 0
    for client in clients + pyverbs:
        result = subprocess.run(["ldd", "-r", client], env=environment, capture_output=True, text=True)
        lines = (result.stdout + result.stderr).splitlines()
        ours = [l for l in lines if re.match(r"\s*lib(ibverbs|rdmacm)\.so\.1 => ", l)]
        used += bool(ours)
        problems += [f"{client}: {l.strip()}" for l in ours if f"=> {directory}/" not in l]
        # An extension module finds Python's own symbols in the interpreter.
        problems += [f"{client}: {l.strip()}" for l in lines
                     if re.search(r"undefined symbol|not found|no version information|symbol lookup", l)
                     and not (client in pyverbs and re.search(r"undefined symbol: _?Py", l))]

    if pyverbs:
        modules = [re.sub(r"\.cpython-.*", "", p.split("/dist-packages/")[1]).replace("/", ".") for p in pyverbs]
        result = subprocess.run(["/usr/bin/python3", "-c", "import " + ", ".join(modules)], capture_output=True, text=True,
                                env=dict(environment, LD_BIND_NOW="1"))
        if result.returncode:
            problems.append(f"pyverbs: {result.stderr.strip()}")

    print(f"{used} clients use the libraries, {len(pyverbs)} of them modules of pyverbs")
    for problem in problems:
        print(problem)
    sys.exit(1 if problems else 0 if used else 77)


main()
