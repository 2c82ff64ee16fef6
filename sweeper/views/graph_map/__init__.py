"""How the graph of one point is mapped onto chips: read from the point, written as text, drawn."""
