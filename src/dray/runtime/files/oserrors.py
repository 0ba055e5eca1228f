"""An OSError as one of our errors: whose fault it is, the path, and what to do about it."""

from __future__ import annotations

import errno
import os

from dray.errors import (
    ConflictError,
    DeniedError,
    Error,
    HardwareError,
    InvalidError,
    NotFoundError,
    UnavailableError,
)

_ADVICE = {
    errno.ENOSPC: "the disk is full: free space or inodes on it",
    errno.EDQUOT: "the disk quota is used up: free space or raise the quota",
    errno.EROFS: "the file system is read-only: remount it writable or choose another directory",
    errno.EIO: "the disk reported an I/O error: look at the kernel log",
    errno.EACCES: "permission denied: run as a user who may, or change the owner or mode",
    errno.EPERM: "not permitted: it needs root or a capability",
    errno.ELOOP: "a symbolic link is in the way",
    errno.EMFILE: "too many open files in this process: raise its limit (ulimit -n)",
    errno.ENFILE: "too many open files on this machine: raise fs.file-max",
    errno.ENOENT: "it does not exist",
    errno.ENOTDIR: "a part of the path is not a directory",
    errno.EISDIR: "it is a directory",
    errno.EEXIST: "it exists already",
    errno.ENOTEMPTY: "the directory is not empty",
    errno.EBUSY: "it is in use",
}
_FORBIDDEN = (
    "not permitted, though this is root: a capability is missing, or the container's device cgroup or a security "
    "policy forbids it"
)
_INVALID = {errno.EINVAL, errno.ENAMETOOLONG, errno.EISDIR, errno.ENOTDIR, errno.EFBIG, errno.ERANGE}
_CONFLICT = {errno.EEXIST, errno.ENOTEMPTY, errno.EBUSY, errno.ETXTBSY}
_DENIED = {errno.EACCES, errno.EPERM, errno.ELOOP}
_UNAVAILABLE = {
    errno.ENOSPC,
    errno.EDQUOT,
    errno.EROFS,
    errno.EMFILE,
    errno.ENFILE,
    errno.ENOMEM,
    errno.EAGAIN,
    errno.EINTR,
    errno.ESTALE,
    errno.ETIMEDOUT,
    errno.ECONNREFUSED,
    errno.ENOTSUP,
}


def from_os_error(error: OSError, doing: str, path: str, *, after: str = "") -> Error:
    """The error to raise (`from error`) when `doing` ("save", "chown") failed on `path`; `after` is one more hint."""
    code = error.errno or 0
    reason = _ADVICE.get(code) or (os.strerror(code) if code else str(error))
    if code == errno.EPERM and os.geteuid() == 0:
        reason = _FORBIDDEN
    message = f"cannot {doing} {path!r}: {reason}" + (f"; {after}" if after else "")
    if code == errno.ENOENT:
        return NotFoundError(message, kind="file", name=path)
    if code in _DENIED:
        return DeniedError(message, what=f"{doing} {path}")
    if code in _CONFLICT:
        return ConflictError(message)
    if code in _INVALID:
        return InvalidError(message, field=path)
    if code in _UNAVAILABLE or isinstance(error, TimeoutError):
        return UnavailableError(message)
    return HardwareError(message, path=path)
