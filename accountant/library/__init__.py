"""What hubbub's services do not ask and others may: a person's several devices, secret subsets, other libraries."""
