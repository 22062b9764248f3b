"""What `hubbub init` makes: a folder for each party of a deployment."""
