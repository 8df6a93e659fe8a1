"""The grammar: files as trees that are valid, or broken in one place at a time.

``model`` is the tree, ``valid`` generates bases, ``vocabulary`` contains all words. The modules of ``faults``
and ``variations`` change a file: each mutation names the rules that it targets, generic ones target none.
"""
