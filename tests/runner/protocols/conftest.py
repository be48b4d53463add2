from __future__ import annotations

import pytest

from actors.executor import Session, WorkerSpec
from actors.worker import Worker


@pytest.fixture(scope="session")
def session() -> Session:
    """The embedded checkpoint, opened."""
    return Worker(WorkerSpec("builtin", "official", threads=1), "test").session
