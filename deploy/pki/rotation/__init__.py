"""Shows and rotates keys for `hubbub keys`. Each kind of key implements one protocol; `registry` lists them."""
