"""A step of fixed shapes as a CUDA graph: at these widths a GPU finishes kernels sooner than Python can start them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor


class Captured:
    """Calls `function`, from the fourth call on by replaying a CUDA graph of it.

    The function must read and write the same tensors at every call, keep all numbers that change in tensors, and never
    wait for the device. Its inputs are copied into the graph's own; its outputs are overwritten by the next call. On a
    CPU every call is an ordinary one. Calls belong on a stream other than the default one (`choose_device` sees to it).
    """

    WARM_UP = 3  # ordinary calls first: they compile, choose algorithms and allocate the optimiser's state

    def __init__(self, function: Callable[..., Any], device: torch.device) -> None:
        self._function, self._graphed = function, device.type == "cuda"
        self._calls, self._graph = 0, None

    def __call__(self, *inputs: Tensor) -> Any:
        self._calls += 1
        if not self._graphed or self._calls <= self.WARM_UP:
            return self._function(*inputs)
        if self._graph is None:
            self._inputs = [x.clone() for x in inputs]
            self._graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self._graph, stream=torch.cuda.current_stream()):
                self._outputs = self._function(*self._inputs)
        for kept, given in zip(self._inputs, inputs, strict=True):
            kept.copy_(given)
        self._graph.replay()
        return self._outputs


def choose_device() -> torch.device:
    """The GPU if there is one, with work put on a stream of its own, since the default one can't be captured."""
    if not torch.cuda.is_available():
        return torch.device("cpu")
    torch.cuda.set_stream(torch.cuda.Stream())
    return torch.device("cuda")
