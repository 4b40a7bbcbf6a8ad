"""A file system of one file, served by a process of its own: stopped, it never answers; continued, it answers again.

server.py PROGRAM [WORD...]: mounts it on `far`, with what `there/train.log` holds, and becomes the program. The
server's number is in `server`; it ends with the program.
"""

import ctypes
import os
import signal
import struct
import sys

LOOKUP, FORGET, GETATTR, OPEN, READ, RELEASE, FLUSH, INIT = 1, 2, 3, 14, 15, 18, 25, 26
OPENDIR, RELEASEDIR, INTERRUPT, FORGETS = 27, 29, 36, 42
ABSENT, UNKNOWN = 2, 38
FOLDER, FILE = 1, 2
# Each reading comes here: nothing is kept in the kernel.
DIRECT = struct.pack("<QII", 0, 1, 0)
LOG = "there/train.log"


def attributes(node):
    there = os.stat(LOG if node == FILE else "there")
    times = there.st_atime_ns, there.st_mtime_ns, there.st_ctime_ns
    seconds, rests = zip(*(divmod(time, 10**9) for time in times))
    whose = there.st_mode, 1, there.st_uid, there.st_gid
    return struct.pack("<6Q10I", node, there.st_size, 0, *seconds, *rests, *whose, 0, 4096, 0)


def answer(kind, node, asked):
    """What is answered; a number is an error."""
    if kind == INIT:
        return struct.pack("<4I2H2I2H8I", 7, 31, 0, 0, 0, 0, 4096, 1, 0, 0, *[0] * 8)
    if kind == LOOKUP:
        if asked.rstrip(b"\0") != b"train.log":
            return ABSENT
        return struct.pack("<4Q2I", FILE, 0, 0, 0, 0, 0) + attributes(FILE)
    if kind == GETATTR:
        return struct.pack("<QII", 0, 0, 0) + attributes(node)
    if kind in (OPEN, OPENDIR):
        return DIRECT
    if kind == READ:
        _, offset, size = struct.unpack_from("<QQI", asked)
        with open(LOG, "rb") as log:
            return os.pread(log.fileno(), size, offset)
    return b"" if kind in (RELEASE, RELEASEDIR, FLUSH) else UNKNOWN


def serve(device):
    while True:
        try:
            question = os.read(device, 1 << 18)
        except OSError:
            return
        _, kind, unique, node = struct.unpack_from("<IIQQ", question)
        if kind in (FORGET, FORGETS, INTERRUPT):
            continue
        said = answer(kind, node, question[40:])
        error, said = (said, b"") if isinstance(said, int) else (0, said)
        try:
            os.write(device, struct.pack("<IiQ", 16 + len(said), -error, unique) + said)
        except OSError:
            # Whoever asked has gone.
            pass


def main():
    kernel = ctypes.CDLL(None)
    device = os.open("/dev/fuse", os.O_RDWR)
    options = b"fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other" % device
    if kernel.mount(b"far", b"far", b"fuse", 0, options):
        sys.exit(77)
    server = os.fork()
    if server == 0:
        kernel.prctl(1, signal.SIGKILL)
        serve(device)
        os._exit(0)
    with open("server", "w", encoding="ascii") as number:
        number.write(str(server))
    os.execv(sys.argv[1], sys.argv[1:])


main()
