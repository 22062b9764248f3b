"""One module per command of `hubbub`. Each reads its arguments, calls other modules for the work, and prints."""
