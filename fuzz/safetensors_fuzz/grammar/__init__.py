"""The grammar describes files as trees. The files are valid or have deliberate faults.

``model`` defines the tree, ``valid`` generates valid files to start from, and ``vocabulary`` contains all
words. ``faults``, ``extent`` and ``variations`` contain the mutations. Each mutation names the rules that it
targets, except for generic mutations, which target no rule.
"""
