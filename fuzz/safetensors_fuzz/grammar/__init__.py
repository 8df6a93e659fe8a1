"""The grammar: files as trees that can be valid, or broken in one place at a time.

``model`` is the tree, ``valid`` makes bases, ``vocabulary`` holds every word, the modules ``faults_*`` and
``variations`` change a file on purpose (each change names the rule it aims at), ``generic`` at random.
"""
