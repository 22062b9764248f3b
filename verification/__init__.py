"""Verifies certificates, histories, saved results and proofs, without any service."""
