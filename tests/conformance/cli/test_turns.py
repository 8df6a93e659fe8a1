"""Turns of runs: never more at work than allowed, and waiting for a hang blocks no other run."""

from __future__ import annotations

import threading

import pytest

from safetensors_conformance.cli.run import given_up


def test_a_turn_is_given_up_for_a_while_and_taken_again_whatever_happens() -> None:
    turns, free = threading.BoundedSemaphore(1), []

    def waits() -> None:
        with given_up(turns):
            free.append(turns.acquire(blocking=False))
            turns.release()
            raise ValueError("while waiting")

    with turns:
        with pytest.raises(ValueError, match="while waiting"):
            waits()
        free.append(turns.acquire(blocking=False))
    assert free == [True, False]
