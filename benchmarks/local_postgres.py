"""A real PostgreSQL server in a temporary folder, on a Unix socket, run by another user than root."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

USER, PASSWORD = "custodian", "zqxjsecret"  # the password must never be seen again
SETTINGS = ("listen_addresses=''", "fsync=off", "full_page_writes=off", "max_connections=20", "shared_buffers=16MB")


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A running server; `host` is the folder of its socket."""

    host: str
    bin: Path

    def address(self, *, user: str = USER, table: str | None = None, password: str = "") -> str:
        """Its address as people type it."""
        who = f"{user}:{password}" if password else user
        asked = f"&table={table}" if table else ""
        return f"postgresql://{who}@/postgres?host={self.host}{asked}"

    def run(self, sql: str, *, user: str = USER) -> str:
        """What psql prints, without any decoration."""
        command = [self.bin / "psql", "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-h", self.host, "-U", user]
        env = {**os.environ, "PGPASSWORD": PASSWORD}
        done = subprocess.run(
            [*command, "-d", "postgres"], input=sql, text=True, capture_output=True, env=env, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()


def missing() -> str:
    """Why no server can be started here; empty where one can."""
    if _binaries() is None:
        return "PostgreSQL is not installed (Debian: postgresql)"
    return "" if os.getuid() or _other_user() else "PostgreSQL refuses to run as root, and there is no other user"


def _binaries() -> Path | None:
    found = [Path(p).parent for p in (shutil.which("initdb"),) if p]
    found += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    found = [folder.resolve() for folder in found]
    return next((f for f in found if all((f / name).exists() for name in ("initdb", "pg_ctl", "psql"))), None)


def _other_user() -> pwd.struct_passwd | None:
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    return None


@contextmanager
def server() -> Iterator[Server]:
    """A server that asks every client for a password, and is gone after the block."""
    folder, binaries = Path(tempfile.mkdtemp(prefix="pg-", dir="/tmp")), _binaries()
    assert binaries is not None
    as_user: dict[str, object] = {}
    if os.getuid() == 0:
        other = _other_user()
        assert other is not None
        as_user = {"user": other.pw_uid, "group": other.pw_gid, "extra_groups": []}
        os.chown(folder, other.pw_uid, other.pw_gid)
    folder.chmod(0o711)
    data, secret = folder / "data", folder / "secret"
    secret.write_text(PASSWORD)
    secret.chmod(0o644)

    def call(*command: object) -> None:
        done = subprocess.run(
            [str(part) for part in command], check=False, capture_output=True, text=True, cwd=folder, **as_user
        )
        assert done.returncode == 0, done.stderr

    try:
        call(
            binaries / "initdb", "-D", data, "-U", USER, "--pwfile", secret, "-A", "scram-sha-256", "-E", "UTF8",
            "--locale", "C", "--no-sync",
        )  # fmt: skip
        options = " ".join(f"-c {setting}" for setting in SETTINGS) + f" -k {folder}"
        call(binaries / "pg_ctl", "-D", data, "-l", folder / "log", "-w", "-o", options, "start")
        try:
            yield Server(host=str(folder), bin=binaries)
        finally:
            call(binaries / "pg_ctl", "-D", data, "-m", "immediate", "-w", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
