"""Certificates, histories, saved results and proofs. No service is needed."""
