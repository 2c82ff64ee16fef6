"""The commands of the command line, a file per group; each is a thin layer over one function of the library."""
