"""Both substitutions on a random checkpoint as deep as the study's, 43 layers: its very counts."""

from __future__ import annotations

from dataclasses import replace

import pytest
from random_runs import GEOMETRY, RandomRuns, violations, write_checkpoint

LAYERS, FORK, INPUTS = 43, 5, 8
CATALOG = "prompt_id\tlanguage\tkind\ttext\nen-1\ten\tordinary\tsheep\n"


@pytest.fixture(scope="module")
def deep(tmp_path_factory: pytest.TempPathFactory) -> RandomRuns:
    ratios = (0, 0, *(4, 8) * 20, 4)
    geometry = replace(GEOMETRY, compress_ratios=ratios, num_nextn_predict_layers=0)
    folder = tmp_path_factory.mktemp("deep")
    return RandomRuns(write_checkpoint(folder / "checkpoint", geometry=geometry), folder)


def job(protocol: str) -> dict[str, object]:
    return {"protocol": protocol, "fork": {"layer": FORK, "select": "max_linf"}, "decode_inputs": INPUTS}


@pytest.mark.slow
def test_post_mhc_has_5_and_339_states_344_routes_and_9_predictions(deep: RandomRuns) -> None:
    run = deep.run("post_mhc", job("post_mhc"), catalog=CATALOG)
    [row] = run.store.table("control", "post_mhc_units").to_pylist()
    assert row["layers"] == LAYERS
    equal = [row[f"{what}_equal"] for what in ("prefork", "vectors", "routes", "predictions")]
    assert equal == [5, 339, 344, 9]
    assert violations(run) == []


@pytest.mark.slow
def test_persistent_state_has_301_of_each(deep: RandomRuns) -> None:
    run = deep.run("persistent_state", job("persistent_state"), catalog=CATALOG)
    [row] = run.store.table("control", "persistent_state_units").to_pylist()
    assert [row[f"{what}_equal"] for what in ("post_mhc", "states", "routes")] == [301, 301, 301]
    assert row["differing_layers"] <= LAYERS - FORK - 1
    assert row["fp64_layers_rebuilt"] == LAYERS
    assert violations(run) == []
