"""Fetches the pinned packages with the ordinary registry clients and gives access to the files inside them."""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path

from training.corpus.packages import Package, by_name

_MEDIA = ("ogg", "png", "jpg", "webp", "pdf", "wav", "svg", "svgz", "mp3", "dds", "tga", "opus")


class Archive:
    """A fetched package.

    Debian packages are unpacked (without media) so that readers can walk them; the other kinds are read in place.
    """

    def __init__(self, package: Package, root: Path) -> None:
        self.package, self._packages, self._unpacked = package, root / "packages", root / "unpacked"
        self._packages.mkdir(parents=True, exist_ok=True)

    @cached_property
    def path(self) -> Path:
        """The archive on disk, fetched on first use. Raises FileNotFoundError if the client left none."""
        found = self._find()
        if found is None:
            subprocess.run(self._command(), check=True, cwd=self._packages, stdout=subprocess.DEVNULL)
            found = self._find()
        if found is None:
            raise FileNotFoundError(f"{self.package.name}={self.package.version} was not fetched")
        return found

    def sha256(self) -> str:
        return hashlib.sha256(self.path.read_bytes()).hexdigest()

    def members(self, accept: Callable[[str], bool]) -> Iterator[tuple[str, bytes]]:
        """(name, content) of the accepted members in name order, for wheels, sdists and npm tarballs."""
        if self.path.suffix in (".whl", ".zip"):
            with zipfile.ZipFile(self.path) as archive:
                for name in sorted(archive.namelist()):
                    if accept(name):
                        yield name, archive.read(name)
            return
        with tarfile.open(self.path) as archive:
            for member in sorted((m for m in archive.getmembers() if m.isfile() and accept(m.name)), key=lambda m: m.name):
                yield member.name, archive.extractfile(member).read()

    def files(self, pattern: str) -> list[Path]:
        """Unpacked files of a Debian package that match a recursive glob, in name order."""
        return sorted(p for p in self._tree.glob(pattern) if p.is_file())

    @cached_property
    def _tree(self) -> Path:
        tree = self._unpacked / self.package.name
        if not tree.is_dir():
            partial = tree.with_suffix(".partial")
            partial.mkdir(parents=True, exist_ok=True)
            data = subprocess.Popen(["dpkg-deb", "--fsys-tarfile", str(self.path)], stdout=subprocess.PIPE)
            skip = [f"--exclude=*.{extension}" for extension in _MEDIA]
            subprocess.run(["tar", "-x", "-C", str(partial), "--wildcards", *skip], stdin=data.stdout, check=True)
            data.wait()
            partial.rename(tree)
        return tree

    def _find(self) -> Path | None:
        name = re.sub(r"[-_.]+", "[-_.]", self.package.name)
        shape = {
            "wheel": rf"{name}-.*\.whl",
            "sdist": rf"{name}-[\d.]+\.(tar\.gz|zip)",
            "npm": rf"{name}-.*\.tgz",
            "deb": rf"{re.escape(self.package.name)}_.*\.deb",
        }[self.package.kind]
        hits = [p for p in sorted(self._packages.iterdir()) if re.fullmatch(shape, p.name, re.I)]
        return hits[0] if hits else None

    def _command(self) -> list[str]:
        name, version, kind = self.package.name, self.package.version, self.package.kind
        pip = [sys.executable, "-m", "pip", "download", "-q", "--no-deps"]
        return {
            "wheel": [*pip, "--only-binary", name, f"{name}=={version}"],
            "sdist": [*pip, "--no-build-isolation", "--no-binary", name, f"{name}=={version}"],
            "npm": ["npm", "pack", "--silent", f"{name}@{version}"],
            "deb": ["apt-get", "download", "-q", f"{name}={version}"],
        }[kind]


class Shelf:
    """All archives by package name, below one folder."""

    def __init__(self, root: Path) -> None:
        self._archives = {name: Archive(package, root) for name, package in by_name().items()}

    def __getitem__(self, name: str) -> Archive:
        return self._archives[name]

    def __iter__(self) -> Iterator[Archive]:
        return iter(self._archives.values())
