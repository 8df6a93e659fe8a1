"""Subjects, questions about inputs, wrong answers, and the search for a simpler input and for the cause."""
