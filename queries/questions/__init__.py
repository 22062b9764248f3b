"""The kinds of questions, one in each module; two kinds have folders: `queries/texts` and `queries/longitudinal`."""
