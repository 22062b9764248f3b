"""One module per command of `hubbub`; each only reads its arguments, calls the part that works, and prints."""
