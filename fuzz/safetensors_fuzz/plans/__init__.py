"""Fuzzing of what is more than reading a file: slices, writes, and loading through an index.

A *plan* says in JSON what is asked; everything else follows from it. Shrinking changes the plan, and the
expectation is worked out anew each time: by the builders of the corpus, which know what they were told, and
by the rules. The reference is no oracle here; it is asked like any other implementation.
"""
