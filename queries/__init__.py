"""The questions that can be asked and the randomizers of their answers, each a class of its own."""
