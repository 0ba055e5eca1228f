"""Files below a root that others may tamper with: every act goes to the very file that was opened, by descriptor.

    with Root(Path("/proc/1/root")) as root, root.open("dev/vfio") as directory:
        directory.mknod("42", stat.S_IFCHR | 0o600, os.makedev(240, 1))

No symbolic link, "..", or race between looking and acting leads out of the root. What is not covered: a hard link made
inside the root to a file outside it. The kernel refuses those to strangers (fs.protected_hardlinks=1, the default of
every distribution). A process killed while it makes something may leave a hidden `.dray-*.tmp` beside it.
"""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import stat
from collections.abc import Iterator
from pathlib import Path

from dray.errors import ConflictError, DeniedError, InvalidError, NotFoundError
from dray.runtime.files.durable import replace_file, temporary_name
from dray.runtime.files.oserrors import from_os_error
from dray.runtime.files.safefile import Descriptor, SafeFile, closed_on_error, told
from dray.runtime.files.saferesolve import Links, Resolver, best_resolver, check_name, check_relative

__all__ = ["Links", "Owner", "Root", "SafePath"]

Owner = tuple[int, int]

_STEP = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC


class Root(Descriptor):
    """The directory that nothing leaves. `path` itself is trusted: its links are followed, once, here.

    `shown` is the path for errors, if `path` is that of a descriptor (`SafeFile.proc_path`).
    """

    def __init__(self, path: Path, *, resolver: Resolver | None = None, shown: str = "") -> None:
        shown = shown or str(path)
        with told("open", shown):
            descriptor = os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        super().__init__(descriptor, shown)
        self._resolve = resolver or best_resolver()

    def open(self, path: str, *, links: Links = Links.REFUSE) -> SafePath:
        """What is at `path` ("." is the root itself). It is never a symbolic link.

        Errors: InvalidError for an absolute path or "..", NotFoundError, DeniedError naming the link in the way.
        """
        check_relative(path)
        shown = str(Path(self.shown, path))
        try:
            return SafePath(self._resolve(self.fileno(), path, links), shown)
        except OSError as error:
            if error.errno == errno.ELOOP and links is Links.REFUSE:
                message = (
                    f"cannot open {shown!r}: {error.filename!r} is a symbolic link, and none is followed here"
                )
                raise DeniedError(message, what=f"open {shown}") from error
            if error.errno == errno.EXDEV:
                message = f"cannot open {shown!r}: it leads out of {self.shown!r}"
                raise DeniedError(message, what=f"open {shown}") from error
            raise from_os_error(error, "open", shown) from error


class SafePath(SafeFile):
    """One file, device, socket or directory, held open. Renaming or replacing its name afterwards changes nothing.

    Methods that take a `name` act inside this directory; a name is one part, and a link under it is never followed.
    """

    def child(self, name: str) -> SafePath:
        """The entry `name`, like `Root.open` without links."""
        check_name(name)
        shown = self._below(name)
        with told("open", shown):
            child = SafePath(os.open(name, _STEP, dir_fd=self.fileno()), shown)
        if stat.S_ISLNK(child.stat().st_mode):
            child.close()
            raise DeniedError(f"cannot open {shown!r}: it is a symbolic link", what=f"open {shown}")
        return child

    def listdir(self) -> list[str]:
        """The names in this directory, sorted."""
        with self.reopened(os.O_RDONLY | os.O_DIRECTORY, "list") as descriptor:
            return sorted(os.listdir(descriptor))  # noqa: PTH208  (by descriptor)

    def readlink(self, name: str) -> str:
        """The text of the link `name`; only text, it may point anywhere."""
        check_name(name)
        with told("read the link", self._below(name)):
            return os.readlink(name, dir_fd=self.fileno())

    def mkdir(self, name: str, mode: int = 0o700, *, owner: Owner | None = None) -> SafePath:
        """Make a directory with exactly this mode and owner; ConflictError when the name is taken."""
        check_name(name)
        with told("make the directory", self._below(name)):
            os.mkdir(name, mode & 0o700, dir_fd=self.fileno())
        try:
            return self._finished(name, stat.S_IFDIR, mode, owner)
        except BaseException:
            with contextlib.suppress(OSError):
                os.rmdir(name, dir_fd=self.fileno())
            raise

    def directory(self, name: str, mode: int = 0o700) -> SafePath:
        """The directory `name`, made where it is missing. InvalidError for another kind of file, DeniedError for a link."""
        try:
            found = self.child(name)
        except NotFoundError:
            try:
                return self.mkdir(name, mode)
            except ConflictError:  # another process was faster
                found = self.child(name)
        if not stat.S_ISDIR(found.stat().st_mode):
            found.close()
            raise InvalidError(f"{self._below(name)!r} is not a directory", field=self._below(name))
        return found

    def mknod(self, name: str, mode: int, device: int = 0, *, owner: Owner | None = None) -> None:
        """Make a device node, FIFO or empty file (`mode` holds the type too), complete before the name appears.

        ConflictError when the name is taken.
        """
        with self._building(name) as temporary:
            os.mknod(temporary, stat.S_IFMT(mode), device, dir_fd=self.fileno())
            with self._finished(temporary, stat.S_IFMT(mode), stat.S_IMODE(mode), owner, device) as made:
                self._publish(made, name)

    def listen(
        self,
        name: str,
        mode: int = 0o600,
        *,
        owner: Owner | None = None,
        replace: bool = False,
        backlog: int = 128,
    ) -> socket.socket:
        """A unix socket that listens under `name`; its mode and owner are set before anyone can connect.

        The name appears when it already listens. An old file is only replaced (atomically) with `replace`; else that
        is a ConflictError. Closing the socket leaves the name behind: `remove` it.
        """
        unbound = socket.socket(socket.AF_UNIX)
        with closed_on_error(unbound) as listener, self._building(name) as temporary:
            os.fchmod(listener.fileno(), 0)  # Linux makes the file with the socket's own mode
            listener.bind(f"{self.proc_path}/{temporary}")
            with self._finished(temporary, stat.S_IFSOCK, mode, owner) as made:
                listener.listen(backlog)
                if replace:
                    os.rename(temporary, name, src_dir_fd=self.fileno(), dst_dir_fd=self.fileno())
                else:
                    self._publish(made, name)
        return listener

    def replace(self, name: str, data: bytes, mode: int = 0o600) -> None:
        """Put a regular file with this content under `name`, atomically and durably; a link there is replaced itself."""
        check_name(name)
        with self.reopened(os.O_RDONLY | os.O_DIRECTORY, f"write {name!r} in") as descriptor:
            replace_file(descriptor, name, data, mode=mode)

    def rename(self, name: str, new_name: str, directory: SafePath | None = None) -> None:
        """Rename an entry, into another directory if given; what has the new name is replaced."""
        check_name(name)
        check_name(new_name)
        target = (directory or self).fileno()
        with told("rename", self._below(name)):
            os.rename(name, new_name, src_dir_fd=self.fileno(), dst_dir_fd=target)

    def remove(self, name: str) -> None:
        """Remove one entry: a file, a link itself, or an empty directory. NotFoundError when it is not there."""
        check_name(name)
        with told("remove", self._below(name)):
            try:
                os.unlink(name, dir_fd=self.fileno())
            except IsADirectoryError:
                os.rmdir(name, dir_fd=self.fileno())

    def _below(self, name: str) -> str:
        return str(Path(self.shown, name))

    @contextlib.contextmanager
    def _building(self, name: str) -> Iterator[str]:
        """A hidden name to build something under that will be `name`; it is gone in the end, whatever happens."""
        check_name(name)
        temporary = temporary_name()
        with told("make", self._below(name)):
            try:
                yield temporary
            finally:
                with contextlib.suppress(OSError):
                    os.unlink(temporary, dir_fd=self.fileno())

    def _publish(self, made: SafePath, name: str) -> None:
        # By descriptor: not even somebody who swaps the hidden name gets another file published.
        os.link(made.proc_path, name, dst_dir_fd=self.fileno(), follow_symlinks=True)

    def _finished(self, name: str, kind: int, mode: int, owner: Owner | None, device: int = 0) -> SafePath:
        """Give the entry that we just made its owner and mode, after checking that it is the one we made."""
        made = self.child(name)
        try:
            status = made.stat()
            ours = stat.S_IFMT(status.st_mode) == kind and status.st_uid == os.geteuid()
            alone = kind == stat.S_IFDIR or (status.st_nlink == 1 and stat.S_IMODE(status.st_mode) == 0)
            if not (ours and alone and (status.st_rdev == device or kind == stat.S_IFDIR)):
                raise DeniedError(f"{self._below(name)!r} was replaced by somebody while it was made")
            if owner is not None:
                made.chown(*owner)
            if stat.S_IMODE(made.stat().st_mode) != mode:
                made.chmod(mode)
        except BaseException:
            made.close()
            raise
        return made
