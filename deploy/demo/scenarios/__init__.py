"""Defines the scenarios of `hubbub demo`, each on real data; `registry` lists them."""
