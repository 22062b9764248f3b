"""What a batch promises: bounds, composition, calibration, certificates. Import its modules by name."""
