"""One module for each question that the bench answers."""
