"""Who leads, who stands by, and front ends that answer devices."""
