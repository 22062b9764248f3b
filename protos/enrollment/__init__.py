"""Tickets that enroll a device, and the credentials that it gets for them."""
