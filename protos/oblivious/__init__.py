"""Defines Oblivious HTTP (RFC 9458): its keys, its encapsulated messages, and binary HTTP (RFC 9292) inside them."""
