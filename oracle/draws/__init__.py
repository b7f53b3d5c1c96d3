"""One module per kind of question; each draw takes the dice and gives the `input` of a case."""
