"""A run as one HTML file for people without sweeper: the answer, why it is that, and charts to ask further."""
