"""Verdicts on answers, resource budgets, and failure messages."""
