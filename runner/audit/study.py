"""The figures that the study published for DeepSeek-V4-Flash, each with its section; where it gives none, there is none here.

They stand beside what runs measure, and pass the same arithmetic: see `published` in runner.audit.
"""

from __future__ import annotations

from runner.audit.breadth import BreadthFigures, StageFigures
from runner.audit.canonical import CanonicalFigures, Shift
from runner.audit.event_direction import Annotated, Drawn, EventFigures
from runner.audit.geometry import Geometry
from runner.audit.intermediates import IntermediatesFigures, PromptCheck
from runner.audit.ledger import Tally
from runner.audit.persistent import Divergence, PersistentFigures, PromptCase
from runner.audit.persistent_state import StateControl, StateFigures
from runner.audit.post_mhc import PostMhcControl, PostMhcFigures
from runner.audit.propagation import PropagationFigures, Trace
from runner.audit.replay import ReplayFigures
from runner.audit.sweep import SweepCase, SweepFigures

SCHEMES = ("P32", "C", "A", "B")
SHEEP, LIGHT, FRIEND = "why the sheep", "Morning light filled the room", "朋友昨天打来电话"

FLASH = Geometry(
    hidden_size=4096,
    streams=4,
    window=128,
    head_dim=512,
    index_head_dim=128,
    experts_per_token=6,
    ratios=(0, 0, *(4, 128) * 20, 4),
)
"""The checkpoint's geometry: 43 layers, of these 21 with ratio 4 and 20 with 128."""


def _all(count: int) -> Tally:
    """Published as all of so many."""
    return Tally(count, count)


REPLAY = ReplayFigures(  # 3.1
    prompts=13, routes=_all(13), tokens=_all(13), texts=_all(13), c_moe_max_abs=0.0
)

SWEEP = SweepFigures(  # 3.2
    prompts=1,
    schemes=("A", "B"),
    cases=(
        SweepCase(
            "A", "A", terms=6, raw_orders=720, branches=720, moe_outputs=720, post_mhc_states=720, not_native=720, texts=10
        ),
        SweepCase(
            "B", "B", terms=6, raw_orders=720, branches=360, moe_outputs=360, post_mhc_states=360, not_native=360, texts=11
        ),
    ),
)

PERSISTENT = PersistentFigures(
    prompts=3,  # 2.1
    seeds=64,
    schemes=SCHEMES,
    trajectories=768,
    complete=_all(768),
    baselines=3,
    axes={  # 3.6
        "P32": Divergence(192, 161, 192, 115),
        "C": Divergence(0, 0, 0, 0),
        "A": Divergence(192, 178, 192, 123),
        "B": Divergence(192, 172, 192, 114),
    },
    cases=(  # B.4, in the order of jobs/prompts/depth_3.tsv
        PromptCase(SHEEP, "P32", Divergence(64, 59), 4),
        PromptCase(SHEEP, "C", Divergence(0, 0), 1),
        PromptCase(SHEEP, "A", Divergence(64, 58), 8),
        PromptCase(SHEEP, "B", Divergence(64, 61), 10),
        PromptCase(LIGHT, "P32", Divergence(64, 63), 9),
        PromptCase(LIGHT, "C", Divergence(0, 0), 1),
        PromptCase(LIGHT, "A", Divergence(64, 60), 10),
        PromptCase(LIGHT, "B", Divergence(64, 57), 9),
        PromptCase(FRIEND, "P32", Divergence(64, 39), 8),
        PromptCase(FRIEND, "C", Divergence(0, 0), 1),
        PromptCase(FRIEND, "A", Divergence(64, 60), 10),
        PromptCase(FRIEND, "B", Divergence(64, 54), 8),
    ),
)

CANONICAL = CanonicalFigures(
    prompts=3,  # 2.4.6
    schemes=SCHEMES,
    trajectories=12,
    complete=_all(12),
    shifts={"P32": Shift(2, 3), "C": Shift(0, 0), "A": Shift(3, 3), "B": Shift(3, 3)},  # B.4
)

_NOTHING = {"moe": 0.0, "post_mhc": 0.0, "router": 0.0, "logits": 0.0}

INTERMEDIATES = IntermediatesFigures(  # 3.6, B.5
    prompts=3,
    seeds=64,
    scheme="C",
    checks=tuple(PromptCheck(prompt, schedules=64, missing=0, equal=64, linf=_NOTHING) for prompt in (SHEEP, LIGHT, FRIEND)),
)

PROPAGATION = PropagationFigures(  # 3.2.1
    prompts=1,
    traces=(
        Trace(
            label=SHEEP,
            terms=6,
            moe_linf=0.0375366211,
            post_mhc_linf=0.0307998657,
            router_linf=0.01445961,
            logits_linf=0.626680374,
            experts=(frozenset({44, 93, 172, 174, 202, 225}), frozenset({44, 93, 143, 172, 174, 202})),
            router_margins=(0.00335884094, 0.000484466553),
            logit_margins=(0.382600784, 0.446601868),
            first_tokens=(477, 477),
            ordinal=5,
            agreeing=4,
        ),
    ),
)

POST_MHC = PostMhcFigures(  # 2.4.2, 3.2.2
    prompts=1,
    controls=(
        PostMhcControl(
            label=SHEEP,
            layers=43,
            fork_layer=5,
            decode_inputs=8,
            values=16_384,
            prefork=_all(5),
            rebuilt=True,
            reconstruction_linf=0.0,
            vectors=_all(339),
            routes=_all(344),
            predictions=_all(9),
            text_equal=True,
            delta_linf=0.001953125,
            separated=True,  # 3.2.3, of the same branch
            geometry_values=FLASH.post_mhc_values,
        ),
    ),
)

PERSISTENT_STATE = StateFigures(  # 2.4.3, 3.2.3
    prompts=1,
    controls=(
        StateControl(
            label=SHEEP,
            layers=43,
            fork_layer=5,
            decode_inputs=8,
            values=5_883_008,
            differing_values=131_444,
            differing_layers=37,
            max_abs=1.0,
            untouched=_all(6),
            fp32=Tally(10, 43),
            fp64=_all(43),
            same_next_token=True,
            post_mhc=_all(301),
            states=_all(301),
            routes=_all(301),
            predictions=_all(9),
            text_equal=True,
            separated=True,
            geometry_values=FLASH.state_values(position=3),
        ),
    ),
)

EVENT_DIRECTION = EventFigures(
    prompts=1,
    terms=6,
    classes=360,  # 3.3
    items=6,
    item_classes=360,
    provisional={"layoffs": 202, "hiring": 110, "other": 48},  # 2.4.4
    per_label=5,
    sample=(Drawn("layoffs", 202, 5), Drawn("hiring", 110, 5)),
    executions=20,  # 3.4, B.2
    lengths=_all(20),
    tokens=_all(10),
    digests=_all(10),
    metadata=_all(10),
    long_texts=10,  # 3.3
    annotated=Annotated(
        items=6, agreed=6, kappa=1.0, consensus={"layoffs": 202, "hiring": 113, "other": 45}, moved={("other", "hiring"): 3}
    ),
)

BREADTH = BreadthFigures(  # 3.5, B.3
    prompts=50,
    terms=6,
    stages=(
        StageFigures(
            horizon=8,
            at_risk=50,
            new=12,
            cumulative=12,
            differing=12,
            repeated=0,
            by_language={"en": (6, 25), "zh": (6, 25)},
            by_kind={"ordinary": (9, 40), "sensitivity": (3, 10)},
        ),
        StageFigures(horizon=16, at_risk=38, new=12, cumulative=24, differing=12, repeated=0),
        StageFigures(horizon=32, at_risk=26, new=12, cumulative=36, differing=17, repeated=5),
    ),
    all_distinct=_all(50),
    all_not_native=_all(50),
)
