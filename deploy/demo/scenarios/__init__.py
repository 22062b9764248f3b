"""The gallery: what `hubbub demo` can show, each on real data. A demonstration is a value; `registry` has them all."""
