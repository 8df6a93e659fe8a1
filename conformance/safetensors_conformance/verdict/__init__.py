"""Verdicts on answers, with budgets, and the message of a failure."""
