"""Makes and checks the numbers of a certificate: the (ε, δ) of a round for everyone in it, which anyone recomputes."""
