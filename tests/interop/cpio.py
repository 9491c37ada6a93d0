"""Writes the kernel's initial RAM disk format ("newc" cpio).

The kernel unpacks several archives put one after another, later files replacing earlier ones: that is how a boot adds
today's agent to a guest that was built once. As a program, `cpio.py DIRECTORY FILE` packs a whole directory.
"""

import os
import stat
import sys

TRAILER = "TRAILER!!!"


class Archive:
    """One archive, written to a binary file as entries are added; close() ends it."""

    def __init__(self, out):
        self.out = out
        self.inode = 0

    def add(self, name, mode, data=b""):
        """Adds an entry; mode holds the file type too. data is the content, or a symbolic link's target."""
        self.inode += 1
        encoded = name.encode() + b"\0"
        # inode mode uid gid nlink mtime size, devices (major, minor) of file and node, name length, checksum (unused)
        fields = (self.inode, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(encoded), 0)
        self._padded(b"070701" + b"".join(b"%08x" % field for field in fields) + encoded)
        self._padded(data)

    def add_tree(self, root):
        """Adds everything below root except device nodes (the guest mounts devtmpfs)."""
        for directory, names, files in os.walk(root):
            names.sort()
            for name in sorted(names + files):
                path = os.path.join(directory, name)
                mode = os.lstat(path).st_mode
                relative = os.path.relpath(path, root)
                if stat.S_ISLNK(mode):
                    self.add(relative, mode, os.readlink(path).encode())
                elif stat.S_ISDIR(mode):
                    self.add(relative, mode)
                elif stat.S_ISREG(mode):
                    with open(path, "rb") as file:
                        self.add(relative, mode, file.read())

    def close(self):
        self.add(TRAILER, 0)

    def _padded(self, data):
        self.out.write(data + bytes(-len(data) % 4))


if __name__ == "__main__":
    with open(sys.argv[2], "wb") as target:
        archive = Archive(target)
        archive.add_tree(sys.argv[1])
        archive.close()
