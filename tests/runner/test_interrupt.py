"""The first signal asks, the second stops."""

from __future__ import annotations

import os
import signal

import pytest

from runner.interrupt import Interrupt, Interrupted


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_asks_and_says_so_once(number: signal.Signals) -> None:
    said = []
    with Interrupt(lambda: said.append("finishing")) as interrupt:
        assert not interrupt.requested
        os.kill(os.getpid(), number)
        assert interrupt.requested
    assert said == ["finishing"]


def test_the_second_signal_stops_at_once() -> None:
    with Interrupt(lambda: None):
        os.kill(os.getpid(), signal.SIGINT)
        with pytest.raises(Interrupted, match="stopped at once"):
            os.kill(os.getpid(), signal.SIGINT)


def test_who_has_nothing_in_flight_ends_after_the_first_signal() -> None:
    with Interrupt(lambda: None) as interrupt:
        interrupt.require_none()
        os.kill(os.getpid(), signal.SIGINT)
        with pytest.raises(Interrupted, match="interrupted before any worker had work"):
            interrupt.require_none()


def test_signals_mean_afterwards_what_they_meant_before() -> None:
    before = [signal.getsignal(number) for number in Interrupt.SIGNALS]
    with Interrupt(lambda: None):
        assert [signal.getsignal(number) for number in Interrupt.SIGNALS] != before
    assert [signal.getsignal(number) for number in Interrupt.SIGNALS] == before


def test_an_interrupt_is_what_every_handler_takes_for_ctrl_c() -> None:
    """Ray's core lets nothing else through, and no handler of ordinary errors catches it."""
    assert issubclass(Interrupted, KeyboardInterrupt)
