"""What `hubbub demo` can show, each on real data. A scenario is a value; `registry` has them all."""
