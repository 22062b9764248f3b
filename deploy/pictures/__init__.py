"""Pictures of what the accountant says: curves are planned, evaluated to a picture, and drawn as SVG or PNG.

`plan` describes curves and evaluates them, `sweep` plans those of any mechanism over one variable, `figures` names the
papers' comparisons, `draw` turns an evaluated picture into a file.
"""
