"""A short run of the fuzzer, and that it would notice."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import fuzz
from fuzz_case import draw_case
from fuzz_models import odd_geometry, odd_model
from fuzz_play import Player


def test_random_mixtures_give_each_row_the_bits_it_has_alone() -> None:
    """A few cases with every instruction set; `fuzz.py --seconds 600` is the long run."""
    script = Path(fuzz.__file__)
    done = subprocess.run(
        [sys.executable, str(script), "--seconds", "5", "--seed", "4"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "no difference" in done.stdout


def test_a_case_follows_from_its_seed_alone(tmp_path: Path) -> None:
    model = odd_model(3, tmp_path / "odd")
    assert draw_case(41, model, 70) == draw_case(41, model, 70) != draw_case(42, model, 70)
    assert odd_geometry(3) == odd_geometry(3) != odd_geometry(4)


def test_a_change_of_one_token_of_one_row_is_noticed(tmp_path: Path) -> None:
    """Two cases that differ in one row's tokens: that row differs from then on, its neighbours do not."""
    model = odd_model(1, tmp_path / "odd")
    case = next(case for case in (draw_case(seed, model, 8) for seed in range(100)) if len(case.rounds[0]) > 2)
    player = Player(model, alone=False)
    expected = player.play(case)
    turns = list(case.rounds[0])
    victim = max(turn.row for turn in turns)  # nobody's parent
    place = next(i for i, turn in enumerate(turns) if turn.row == victim)
    other = tuple((token + 1) % model.config.vocab_size for token in turns[place].tokens)
    turns[place] = replace(turns[place], tokens=other)
    found = player.play(replace(case, rounds=(tuple(turns), *case.rounds[1:])))
    line = fuzz.first_difference(expected, found)
    assert line is not None
    assert line.startswith(f"round 0, row {victim}: ")
    assert {key.split(".")[1] for key in expected if expected[key] != found[key]} == {str(victim)}
