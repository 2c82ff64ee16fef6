"""A server under load: requests that arrive, wait and run, over pass times that the models of a study give."""
