"""The grammar: files as trees, valid or with deliberate faults.

``model`` defines the tree, ``valid`` generates bases, and ``vocabulary`` contains all words. ``faults``,
``extent`` and ``variations`` contain the mutations. Each names the rules that it targets; generic mutations
target none.
"""
