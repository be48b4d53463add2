"""Other decoders on the same checkpoint. Each module is a program of its own, run with whichever Python has its package."""
