"""Watches the side effects of a case: programs, executed text, connections, and files outside of the sandbox."""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lakesmith.intake import orc

_RUNS = ("os.system", "os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.spawn", "pty.spawn", "subprocess.Popen")
_REACHES = ("socket.connect", "socket.bind", "socket.sendto", "socket.getaddrinfo", "socket.gethostbyname")
_NEVER = (*_RUNS, *_REACHES, "os.kill", "os.killpg", "pickle.find_class", "ctypes.dlopen", "code.__new__", "os.putenv")
_CHANGES = ("os.remove", "os.rename", "os.rmdir", "os.mkdir", "os.symlink", "os.link", "os.chmod", "os.truncate")
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_MAKERS = ("dataclasses.py", "collections/__init__.py", "namedtuple", "enum.py", "typing.py", "functools.py", "/ast.py")
"""Standard library modules that execute text that they generated, and one that only parses text."""


class Forbidden(BaseException):
    """Raised instead of a forbidden action. It is not an Exception, so that no handler catches it."""


class Guard:
    """Records and prevents each forbidden action while it is active."""

    def __init__(self, sandbox: str, source: str) -> None:
        self.events: list[str] = []
        self.lenient = False
        """Reject paths outside of the sandbox with a permission error, because a user may type any path."""
        self._watching = False
        self._sandbox = os.path.realpath(sandbox)
        own = {sys.prefix, sys.base_prefix, source, *sysconfig.get_paths().values()}
        self._readable = tuple(
            {*map(os.path.realpath, own), "/usr/share/zoneinfo", "/etc/localtime", "/proc", "/sys", "/dev/null"}
        )
        sys.addaudithook(self._heard)

    @contextmanager
    def watching(self) -> Iterator[None]:
        self.events.clear()
        self._watching = True
        try:
            yield
        finally:
            self._watching = False

    def _heard(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self._watching:
            return
        self._watching = False
        try:
            if event in _NEVER:
                if not self._is_own_reader(event, arguments):
                    self._forbid(event, arguments)
            elif event == "open":
                self._opens(*arguments)
            elif event in _CHANGES:
                for path in arguments[:2]:
                    if isinstance(path, str | bytes) and not self._inside(path):
                        self._outside(event, path)
            elif event == "import":
                if arguments[1] is not None and self._inside(arguments[1]):
                    self._forbid(event, arguments[:2])
            elif event == "compile":
                self._compiles(arguments)
            elif event == "exec":
                self._executes(arguments[0])
        finally:
            self._watching = True

    @staticmethod
    def _is_own_reader(event: str, arguments: tuple[Any, ...]) -> bool:
        """Return whether the event belongs to a process that reads ORC files."""
        if event == "subprocess.Popen":
            return list(arguments[1]) == orc.COMMAND
        if event == "os.kill":
            command = Path(f"/proc/{arguments[0]}/cmdline").read_bytes()
            return [os.fsdecode(word) for word in command.split(b"\0")[:-1]] in (
                orc.COMMAND,
                [],
            )  # empty: the process has ended
        return False

    def _opens(self, path: Any, mode: Any, flags: Any) -> None:
        if not isinstance(path, str | bytes):
            return
        writes = (isinstance(mode, str) and set(mode) & set("wax+")) or (isinstance(flags, int) and flags & _WRITING)
        if self._inside(path) or os.fsdecode(path) == os.devnull:
            return
        real = os.path.realpath(os.fsdecode(path))
        if writes or not real.startswith(self._readable):
            self._outside("open for writing" if writes else "open for reading", path)

    def _compiles(self, arguments: tuple[Any, ...]) -> None:
        source, filename = arguments[0], os.fsdecode(arguments[1]) if arguments[1] is not None else ""
        if source is not None and not self._known(filename) and not self._made_by_the_library():
            self._forbid("compile", (str(source)[:80], filename))

    def _executes(self, code: Any) -> None:
        filename = getattr(code, "co_filename", "")
        if not filename.startswith("<frozen") and not self._known(filename) and not self._made_by_the_library():
            self._forbid("exec", (filename, getattr(code, "co_name", "")))

    def _known(self, filename: str) -> bool:
        real = os.path.realpath(filename)
        return os.path.isabs(filename) and real.startswith(self._readable) and not self._inside(real)

    @staticmethod
    def _made_by_the_library() -> bool:
        frame = sys._getframe(3)
        return frame.f_code.co_filename.endswith(_MAKERS)

    def _inside(self, path: Any) -> bool:
        real = os.path.realpath(os.fsdecode(path))
        return real == self._sandbox or real.startswith(self._sandbox + os.sep)

    def _outside(self, event: str, path: Any) -> None:
        if self.lenient:
            raise PermissionError(13, "Permission denied", os.fsdecode(path))
        self._forbid(event, (path,))

    def _forbid(self, event: str, arguments: tuple[Any, ...]) -> None:
        description = f"{event} {arguments!r}"[:300]
        self.events.append(description)
        raise Forbidden(description)
