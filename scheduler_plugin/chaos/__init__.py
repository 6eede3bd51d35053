"""Chaos: faults at random on real services while known rows pour in, and a look at everything afterwards."""
