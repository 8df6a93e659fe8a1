"""The worker's side of the protocol. The folder holds nothing else: its files run as scripts elsewhere."""
