"""What the cases of `extproc.model_checks` are made of: tables of tools and questions, written by hand."""
