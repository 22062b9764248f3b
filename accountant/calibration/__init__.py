"""From a privacy target to the randomizer with the least error that meets it."""
