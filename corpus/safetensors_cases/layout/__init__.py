"""Cases that compare ranges with the shape, with each other and with the end of the file."""
