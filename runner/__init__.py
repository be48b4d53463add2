"""Numerical-conformance experiments on sparse mixture-of-experts decoders, run as distributed batches by the command `runner`."""
