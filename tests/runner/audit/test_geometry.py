"""The formula of the persistent state: the study's number, and the decoder's for other geometries."""

from __future__ import annotations

from random_runs import RandomRuns

import kernels
from runner.audit.geometry import Geometry
from runner.audit.study import FLASH


def test_flash_has_the_published_values_at_position_3() -> None:
    assert FLASH.layers == 43
    assert FLASH.state_values(3) == 5_883_008
    assert FLASH.post_mhc_values == 16_384


def test_the_formula_is_the_decoders(random_runs: RandomRuns) -> None:
    for directory in (kernels.builtin_checkpoint(), random_runs.checkpoint):
        config = kernels.Checkpoint.open(directory).config
        for position in (0, 3, 4, 16, 127, 128, 200):
            assert Geometry.of(config).state_values(position) == kernels.state_value_count(config, position)
