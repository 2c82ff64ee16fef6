"""Where results lie: folders of a disk or an object store, the run directory in them, and who may write it."""
