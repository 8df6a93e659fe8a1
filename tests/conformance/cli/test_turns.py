"""Turns of runs: never more at work than allowed, and waiting for a hang blocks no other run."""

from __future__ import annotations

import threading

import pytest

from safetensors_conformance.cli.run import given_up


def test_a_turn_is_given_up_for_a_while_and_taken_again_whatever_happens() -> None:
    turns = threading.BoundedSemaphore(1)
    with turns:
        with pytest.raises(ValueError, match="while waiting"), given_up(turns):
            assert turns.acquire(blocking=False)  # another run is at work
            turns.release()
            raise ValueError("while waiting")
        assert not turns.acquire(blocking=False)
