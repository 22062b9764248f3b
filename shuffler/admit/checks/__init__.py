"""The checks that a submission must pass before its envelope is opened, one module each; `registry` has the order."""
