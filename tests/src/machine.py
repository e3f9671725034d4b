"""Runs a program on a machine that lacks mechanisms of the kernel: `machine.py MECHANISM[,MECHANISM] PROGRAM ARGUMENTS`.

A filter of system calls (seccomp(2)) answers the calls of each mechanism as a kernel without it does. Numbers of the calls:
asm/unistd.h of x86_64 and asm-generic/unistd.h of aarch64.
"""
import ctypes, errno, os, platform, sys

SECCOMP, UNSHARE, CLONE = {"x86_64": (317, 272, 56), "aarch64": (277, 97, 220)}[platform.machine()]
CLONE3, LANDLOCK = 435, (444, 445, 446)
LOAD, EQUAL, ANY_BIT, RETURN = 0x20, 0x15, 0x45, 0x06  # linux/bpf_common.h
NUMBER, FIRST, SECOND = 0, 16, 24  # in struct seccomp_data, linux/seccomp.h
ALLOW, ERROR = 0x7FFF0000, 0x00050000
NAMESPACES, LISTENER = 0x7E020000, 0x8  # CLONE_NEW*, SECCOMP_FILTER_FLAG_NEW_LISTENER


def refuses(number, error):
    return [(EQUAL, 0, 1, number), (RETURN, 0, 0, ERROR | error)]


def refuses_bits(number, place, bits, error):
    return [(EQUAL, 0, 4, number), (LOAD, 0, 0, place), (ANY_BIT, 0, 1, bits), (RETURN, 0, 0, ERROR | error),
            (LOAD, 0, 0, NUMBER)]


PARTS = {
    "namespaces": refuses_bits(UNSHARE, FIRST, NAMESPACES, errno.EPERM)
    + refuses_bits(CLONE, FIRST, NAMESPACES, errno.EPERM)
    + refuses(CLONE3, errno.ENOSYS),
    "landlock": sum((refuses(number, errno.ENOSYS) for number in LANDLOCK), []),
    "notifications": refuses_bits(SECCOMP, SECOND, LISTENER, errno.EINVAL),
}


class Instruction(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint16), ("jt", ctypes.c_uint8), ("jf", ctypes.c_uint8), ("k", ctypes.c_uint32)]


class Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_uint16), ("filter", ctypes.POINTER(Instruction))]


lines = [(LOAD, 0, 0, NUMBER)]
for part in filter(None, sys.argv[1].split(",")):
    lines += PARTS[part]
lines.append((RETURN, 0, 0, ALLOW))
code = (Instruction * len(lines))(*(Instruction(*line) for line in lines))
libc = ctypes.CDLL(None, use_errno=True)
if libc.prctl(38, 1, 0, 0, 0) or libc.prctl(22, 2, ctypes.byref(Program(len(lines), code))):
    sys.exit("the filter cannot be set: " + os.strerror(ctypes.get_errno()))
os.execvp(sys.argv[2], sys.argv[2:])
