"""The worst case played against real services, and what an attacker learns from it beside the certificate."""
