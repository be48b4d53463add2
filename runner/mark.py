"""finished.json: the mark of a run that has ended with everything done. It names all that the run then consists of."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import PurePath

from runner.dataset import Part
from runner.paths import RunPaths
from runner.plan_files import Plan
from runner.storage import Storage
from schemas.errors import InvalidInput
from schemas.text_file import shown

ALLOWED = "what runner wrote when the run was finished"


@dataclass(frozen=True)
class Mark:
    """dataset_digest: of the parts (runner.dataset). plans: by stage."""

    dataset_digest: str
    plans: Mapping[str, Plan]
    parts: Sequence[Part]
    finished: str

    def to_bytes(self) -> bytes:
        return (json.dumps(asdict(self), indent=1) + "\n").encode()

    @classmethod
    def read(cls, storage: Storage, path: PurePath) -> Mark | None:
        """The mark at `path`, None when there is none. Raises InvalidInput for a file that is not what was written."""
        try:
            content = json.loads(storage.read(path))
        except FileNotFoundError:
            return None
        except (ValueError, RecursionError) as error:
            raise InvalidInput(str(path), "", f"no JSON ({error})", ALLOWED) from None
        digest = content.get("dataset_digest") if isinstance(content, dict) else None
        if not isinstance(digest, str):
            raise InvalidInput(str(path), "dataset_digest", shown(digest), ALLOWED)
        try:
            parts = [Part.from_record(one) for one in content["parts"]]
            paths = RunPaths(path.parent)
            for part in parts:
                part.path(paths)  # raises for a name that leads out of the run
            plans = {str(stage): Plan.from_record(plan, paths) for stage, plan in content["plans"].items()}
            return cls(digest, plans, parts, str(content["finished"]))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise InvalidInput(str(path), "", f"no parts or plans ({error})", ALLOWED) from None
