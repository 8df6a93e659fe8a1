"""The worker's side of the protocol. The files of this folder run as stand-alone scripts elsewhere."""
