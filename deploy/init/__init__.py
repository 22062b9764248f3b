"""Makes the folders of `hubbub init`: one for each party of a deployment."""
