"""Pages for people, as HTML: what is asked, what came out, and what is promised to whom."""
