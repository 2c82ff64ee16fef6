"""Groups of chips that share links share their rates: routes, max-min fair rates, and what they leave of a group's."""
