"""Helper programs that put pressure on the machine, and the base of the atoms that use them."""
