"""Turns a ticket into a credential, and renews it in time."""
