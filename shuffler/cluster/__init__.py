"""Several shufflers on one PostgreSQL: who leads, who stands by, and front ends that answer devices."""
