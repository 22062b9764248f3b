"""What anyone can check from files: certificates, histories, saved results and proofs. No service is needed."""
