"""The annotation files of a run, under RUN/annotations/, each with its SHA-256 in annotations/files.json.

    form.csv, form.tsv   the blank form, blind
    items.tsv            what the form hides: each item's prompt, provisional label and classes
    annotated.csv, .tsv  the filled form as it came in

They lie beside the dataset and are no part of it: a finished run keeps its digest whatever people say.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePath

from runner.annotation.agreement import Agreement, consensus
from runner.annotation.form import FormItem, form_items, format_of, read_form, to_bytes
from runner.protocols.event_direction import event_direction
from runner.protocols.event_direction_sample import CLASSES_STAGE, Item, class_rows, items
from runner.run import Run
from runner.storage import Storage
from schemas.errors import InvalidInput


@dataclass(frozen=True)
class Labelled:
    """An item with what two people said of it. consensus: the label both gave, or ""."""

    item: Item
    form: FormItem
    labels: tuple[str, str]

    @property
    def consensus(self) -> str:
        return consensus(*self.labels)


@dataclass(frozen=True)
class Annotation:
    """The annotation of an event-direction run. Nothing here is opened before it is asked for."""

    run: Run

    @classmethod
    def of(cls, run: Run) -> Annotation:
        """Raises InvalidInput for a run of another protocol, or one whose classes are not all there: a text could be missing."""
        root = str(run.paths.root)
        if run.protocol.name != "event_direction":
            raise InvalidInput(root, "protocol", run.protocol.name, "event_direction")
        stage = next(stage for stage in run.verdict().stages if stage.stage == CLASSES_STAGE)
        if stage.planned is None or stage.done < stage.planned:
            raise InvalidInput(
                root, "", f"{stage.done} of {stage.planned or 'its'} units of classes", "a run with all its classes"
            )
        return cls(run)

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """What an item may be called."""
        return event_direction(self.run.experiment.job).rules.labels

    @cached_property
    def items(self) -> list[Item]:
        return items(class_rows(self.run.store), event_direction(self.run.experiment.job).rules)

    @cached_property
    def form(self) -> list[FormItem]:
        experiment = self.run.experiment
        prompts = {prompt.prompt_id: prompt.text for prompt in experiment.prompts}
        job = event_direction(experiment.job)
        shared = {
            "parameters": job.parameters(),
            "horizon": job.horizon,
            "checkpoint_identity": experiment.checkpoint_identity,
            "tokenizer_identity": experiment.tokenizer_identity,
        }
        return form_items(self.items, prompts, shared)

    def by_item(self) -> dict[str, Item]:
        """Form item ID -> item."""
        prompts = {prompt.text: prompt.prompt_id for prompt in self.run.experiment.prompts}
        found = {(item.prompt_id, item.text): item for item in self.items}
        return {line.item: found[prompts[line.prompt], line.text] for line in self.form}

    def export(self) -> dict[str, PurePath]:
        """Write the blank forms and the list of items; file name -> path. The same bytes every time."""
        contents = {f"form.{form}": to_bytes(self.form, form) for form in ("csv", "tsv")} | {"items.tsv": self._items_tsv()}
        self._put(contents)
        return {name: self._folder / name for name in contents}

    def take(self, path: Path, *, replace: bool) -> list[Labelled]:
        """Check a filled form and keep it. Raises InvalidInput for its first fault, or when another one is kept already."""
        labelled = self._labelled(path)
        name = f"annotated.{format_of(path)}"
        data = path.read_bytes()
        kept = self._kept()
        if kept is not None and (kept.name, self._storage.read(kept)) != (name, data):
            if not replace:
                raise InvalidInput(
                    str(path), "", f"another form than {kept}, which is kept already", "the same form, or --replace"
                )
            if kept.name != name:
                self._forget(kept.name)
        self._put({name: data})
        return labelled

    def labelled(self) -> list[Labelled] | None:
        """The items with their labels in the form's order, or None before a form was taken in.

        Raises InvalidInput when a kept file is not what files.json says.
        """
        kept = self._kept()
        return None if kept is None else self._labelled(kept, self._storage.read(kept))

    def _labelled(self, path: PurePath, data: bytes | None = None) -> list[Labelled]:
        given = read_form(path, self.form, self.labels, str(self.run.paths.root), data=data)
        known = self.by_item()
        return [Labelled(known[line.item], line, given[line.item]) for line in self.form]

    @property
    def _storage(self) -> Storage:
        return self.run.store.storage

    @property
    def _folder(self) -> PurePath:
        return self.run.paths.annotations

    @property
    def _index(self) -> PurePath:
        return self._folder / "files.json"

    def _digests(self) -> dict[str, str]:
        try:
            return dict(json.loads(self._storage.read(self._index)))
        except FileNotFoundError:
            return {}
        except ValueError as error:
            raise InvalidInput(
                str(self._index), "", f"no JSON ({error})", "file names with SHA-256, as runner writes it"
            ) from None

    def _kept(self) -> PurePath | None:
        """The filled form that was taken in, its bytes checked."""
        for name, digest in self._digests().items():
            if name.startswith("annotated."):
                path = self._folder / name
                found = hashlib.sha256(self._storage.read(path)).hexdigest() if self._storage.exists(path) else "no such file"
                if found != digest:
                    raise InvalidInput(str(path), "", f"SHA-256 {found}", f"{digest}, as {self._index.name} says")
                return path
        return None

    def _put(self, contents: Mapping[str, bytes]) -> None:
        # The files first: an index that names what is not there yet would be a damaged run.
        for name, data in contents.items():
            self._storage.replace(self._folder / name, data)
        self._write_index(self._digests() | {name: hashlib.sha256(data).hexdigest() for name, data in contents.items()})

    def _forget(self, name: str) -> None:
        self._write_index({kept: digest for kept, digest in self._digests().items() if kept != name})
        self._storage.remove(self._folder / name)

    def _write_index(self, digests: Mapping[str, str]) -> None:
        self._storage.replace(self._index, (json.dumps(dict(sorted(digests.items())), indent=1) + "\n").encode())

    def _items_tsv(self) -> bytes:
        known = self.by_item()
        lines = ["item\tprompt_id\tprovisional_label\tclasses"]
        for line in self.form:
            item = known[line.item]
            lines.append(f"{line.item}\t{item.prompt_id}\t{item.label}\t{','.join(map(str, item.classes))}")
        return ("\n".join(lines) + "\n").encode()


def agreement(labels: Sequence[str], labelled: Sequence[Labelled]) -> Agreement:
    """How far the two annotators agree on these items."""
    return Agreement(labels, [one.labels[0] for one in labelled], [one.labels[1] for one in labelled])
