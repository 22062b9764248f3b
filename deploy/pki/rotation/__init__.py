"""What `hubbub keys` shows and changes. Each kind is a value behind one protocol; `registry` has them."""
