"""What repeats one paper: its studies with their prose, figures, oracles and recipes. Not part of the wheel."""
