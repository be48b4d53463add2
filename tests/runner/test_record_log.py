"""What a log keeps, what it passes over, what it refuses."""

from __future__ import annotations

from pathlib import Path

import pytest
from faulty_disk import PowerlessDisk
from hypothesis import given
from hypothesis import strategies as st

from runner.disk import Disk
from runner.record_log import RecordLog
from schemas.errors import InvalidInput

RECORDS = [{"unit": "a", "text": "two\nlines 文"}, {"unit": "b", "rows": 2}, {"unit": "c"}]


@pytest.fixture
def log(tmp_path: Path) -> RecordLog:
    log = RecordLog(tmp_path / "log", Disk())
    log.create()
    log.append(RECORDS)
    return log


def test_records_are_read_in_the_order_of_appending(log: RecordLog) -> None:
    assert list(log.read().records) == RECORDS


def test_a_log_that_does_not_exist_is_empty(tmp_path: Path) -> None:
    assert RecordLog(tmp_path / "none", Disk()).read().records == ()


def test_an_appended_record_survives_a_power_cut(tmp_path: Path) -> None:
    disk = PowerlessDisk()
    log = RecordLog(tmp_path / "log", disk)
    log.create()
    log.append(RECORDS)
    disk.lose()
    assert list(log.read().records) == RECORDS


def test_a_log_torn_at_any_byte_reads_as_its_whole_lines(log: RecordLog) -> None:
    data = log.path.read_bytes()
    ends = [place + 1 for place, byte in enumerate(data) if byte == ord("\n")]
    for length in range(len(data)):
        log.path.write_bytes(data[:length])
        whole = sum(end <= length for end in ends)
        assert list(log.read().records) == RECORDS[:whole]


def test_a_repaired_log_takes_records_again(log: RecordLog) -> None:
    log.path.write_bytes(log.path.read_bytes()[:-5])
    assert log.repair() > 0
    log.append([{"unit": "d"}])
    assert list(log.read().records) == [*RECORDS[:2], {"unit": "d"}]


@given(data=st.data())
def test_a_changed_byte_changes_no_record(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    log = RecordLog(tmp_path_factory.mktemp("log") / "log", Disk())
    log.create()
    log.append(RECORDS)
    content = bytearray(log.path.read_bytes())
    end_of_second = content.rfind(b"\n", 0, -1)
    place = data.draw(st.integers(0, len(content) - 1))
    content[place] ^= data.draw(st.integers(1, 255))
    log.path.write_bytes(content)
    if place > end_of_second:
        assert list(log.read().records) == RECORDS[:2]  # as if torn
    elif place == end_of_second:
        assert list(log.read().records) == RECORDS[:1]  # the last two lines are one, as if torn
    else:
        with pytest.raises(InvalidInput, match="a damaged line before whole ones"):
            log.read()
