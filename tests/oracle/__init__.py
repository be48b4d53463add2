"""Reference vectors for the decoder, the script that makes them, and a numpy decoder to compare with."""
