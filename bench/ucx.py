"""UCX's own benchmark between two processes over shared memory, which is what MPI uses on one host."""

import shutil
import subprocess

import measuring

PORT = 18650


def missing():
    """Why it cannot be measured here, or None."""
    return None if shutil.which("ucx_perftest") else "ucx_perftest is not installed (Debian's ucx-utils)"


def tag(test, size, iterations, column):
    """The column of the test's result (ucx_perftest -v): microseconds, MB/s of 2^20, messages a second."""
    command = ["ucx_perftest", "-p", str(PORT)]
    environment = measuring.environment({"UCX_TLS": "shm"})
    server = subprocess.Popen(["taskset", "-c", str(measuring.PASSIVE), *command], env=environment, stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL)
    try:
        measuring.wait_for(server, PORT)
        client = subprocess.run(["taskset", "-c", str(measuring.ACTIVE), *command, "localhost", "-t", test, "-s", str(size),
                                 "-n", str(iterations), "-f", "-v"], env=environment, capture_output=True, text=True,
                                timeout=measuring.SECONDS, check=False)
        lines = client.stdout.strip().splitlines()
        if client.returncode != 0 or len(lines) < 2:
            raise measuring.Failed("ucx_perftest: " + measuring.last_line(client.stdout + client.stderr))
        return float(dict(zip(lines[-2].split(","), lines[-1].split(",")))[column])
    finally:
        server.kill()
        server.wait()


def latency(size):
    return tag("tag_lat", size, 100000, "50.0_percentile_lat")


def bandwidth(size, iterations):
    return tag("tag_bw", size, iterations, "overall_bw") * 2**20 / measuring.GIGABYTE


def rate(size):
    return tag("tag_bw", size, 1000000, "overall_mr") / 1e6
