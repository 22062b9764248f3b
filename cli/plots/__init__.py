"""Plans curves, evaluates them with the accountant, and draws them as SVG or PNG.

`plan` describes curves and evaluates them. `sweep` plans the curves of any mechanism over one variable. `draw`
turns an evaluated plot into a file. The papers' comparisons are plans too, in docs/papers.
"""
