"""The grammar: files as trees that can be valid, or broken in one place at a time.

``model`` is the tree, ``valid`` makes bases, ``vocabulary`` holds every word, the modules of ``faults`` and
``variations`` change a file: each change names the rule it aims at, the generic ones aim at none.
"""
