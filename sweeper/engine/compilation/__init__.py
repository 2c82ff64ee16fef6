"""How kernels become machine code, by whom, and where it is kept."""
