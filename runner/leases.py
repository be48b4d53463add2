"""How units become leases: by group, sized by measured cost, split to single units when one of them is suspect."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from itertools import islice, takewhile

from schemas.unit import Lease, Unit

# Long enough that a call's overhead (about a millisecond) does not count, short enough that a kill costs little.
TARGET_SECONDS = 0.5
# Weight of the newest measurement in the estimate of a unit's cost.
_SMOOTHING = 0.3


class LeaseQueue:
    """Units of one stage that wait for a worker, in plan order, units of a group together.

    largest: most units in one lease. Until the first lease is back nothing is known of a unit's cost, and leases hold one unit.
    """

    def __init__(self, units: Sequence[Unit], *, largest: int, first_id: int = 0) -> None:
        self.next_id = first_id
        self._largest = largest
        self._together = deque(_by_group(units))  # one for all groups: a deque for each takes more memory than its units
        self._alone: deque[Unit] = deque()
        self._last: deque[Unit] = deque()
        self._waiting = len(units)
        self._seconds_per_unit = 0.0

    def __len__(self) -> int:
        return self._waiting

    def take(self, workers: int) -> Lease:
        """The next lease. workers: how many there are to share what is left. Precondition: not empty."""
        if self._alone:
            units: Sequence[Unit] = [self._alone.popleft()]
        elif self._together:
            units = self._take_groups(self._size(workers))
        else:
            units = [self._last.popleft()]
        self._waiting -= len(units)
        self.next_id += 1
        return Lease(self.next_id - 1, units)

    def put_back(self, units: Sequence[Unit]) -> None:
        """Return units that nothing is known against (their worker was lost); they go first."""
        self._together.extendleft(reversed(_by_group(units)))
        self._waiting += len(units)

    def put_last(self, units: Sequence[Unit]) -> None:
        """Return units that lost their workers again and again; each is leased alone, when nothing else is left to lease."""
        self._last.extend(units)
        self._waiting += len(units)

    def put_alone(self, units: Sequence[Unit]) -> None:
        """Return units one of which did harm; each will be leased alone, after which it is known which."""
        self._alone.extend(units)
        self._waiting += len(units)

    def measured(self, units: int, seconds: float) -> None:
        """Take a finished lease into the estimate."""
        cost = seconds / units
        self._seconds_per_unit += (_SMOOTHING if self._seconds_per_unit else 1.0) * (cost - self._seconds_per_unit)

    def _size(self, workers: int) -> int:
        if not self._seconds_per_unit:
            return 1
        fair_share = -(-self._waiting // max(1, workers))
        return max(1, min(self._largest, fair_share, int(TARGET_SECONDS / self._seconds_per_unit)))

    def _take_groups(self, size: int) -> list[Unit]:
        """Whole groups while they fit; of a group that is larger than a lease, as much as fits."""
        units: list[Unit] = []
        while self._together:
            group = self._first_group(size - len(units) + 1)
            if units and len(units) + group > size:
                break
            units += [self._together.popleft() for _ in range(min(group, size))]
        return units

    def _first_group(self, most: int) -> int:
        """Units of the group that is next; `most` when it has more."""
        name = self._together[0].group
        return sum(1 for _ in takewhile(lambda unit: unit.group == name, islice(self._together, most))) if name else 1


def _by_group(units: Iterable[Unit]) -> list[Unit]:
    """Units by group, groups in the order of their first unit; a unit with an empty group name is a group of its own."""
    ranks: dict[str, int] = {}
    return sorted(units, key=lambda unit: ranks.setdefault(unit.group or unit.key, len(ranks)))
