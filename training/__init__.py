"""The recipe that trains the embedded checkpoint `mote`. The product never imports it; see README.md for the steps."""
