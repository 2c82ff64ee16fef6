"""What repeats one paper: its studies with their prose, figures, oracles and recipes. Not part of the wheel."""

import sweeper  # noqa: F401  # before numba and kernels: it says where compiled kernels are kept
