"""Digests of tables: which bytes are hashed."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest

from schemas.digest import floats_sha256, routes_sha256, tokens_sha256


def test_tokens_are_comma_joined() -> None:
    assert tokens_sha256([477, 3, 11885]) == hashlib.sha256(b"477,3,11885").hexdigest()


def test_numpy_tokens_count_as_tokens() -> None:
    assert tokens_sha256(list(np.array([1, 2], dtype=np.int32))) == tokens_sha256([1, 2])


def test_no_tokens_are_the_empty_text() -> None:
    assert tokens_sha256([]) == hashlib.sha256(b"").hexdigest()


def test_the_order_of_tokens_counts() -> None:
    assert tokens_sha256([1, 23]) != tokens_sha256([23, 1])
    assert tokens_sha256([1, 23]) != tokens_sha256([12, 3])


def test_floats_are_little_endian_fp32() -> None:
    assert floats_sha256(np.array([1.0], dtype=np.float32)) == hashlib.sha256(bytes([0, 0, 128, 63])).hexdigest()


def test_floats_are_row_major_whatever_the_strides() -> None:
    values = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert floats_sha256(values) == floats_sha256(np.asfortranarray(values)) == floats_sha256(values.ravel())
    assert floats_sha256(values.T) != floats_sha256(values)


def test_signed_zeros_differ() -> None:
    assert floats_sha256(np.array([0.0], dtype=np.float32)) != floats_sha256(np.array([-0.0], dtype=np.float32))


def test_other_float_types_are_refused() -> None:
    with pytest.raises(TypeError):
        floats_sha256(np.zeros(2))  # type: ignore[arg-type]


def test_a_selection_is_a_set() -> None:
    routes = np.array([[[5, 1, 3]], [[2, 0, 4]]], dtype=np.int32)
    ascending = hashlib.sha256(np.array([1, 3, 5, 0, 2, 4], dtype="<i4").tobytes()).hexdigest()
    assert routes_sha256(routes) == ascending


def test_the_order_of_steps_counts() -> None:
    routes = np.array([[[0, 1]], [[2, 3]]], dtype=np.int32)
    assert routes_sha256(routes) != routes_sha256(routes[::-1])


def test_routes_of_another_shape_are_refused() -> None:
    with pytest.raises(TypeError):
        routes_sha256(np.zeros((2, 3), dtype=np.int32))
