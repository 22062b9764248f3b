"""Figures of the papers, drawn anew from our own bounds."""
