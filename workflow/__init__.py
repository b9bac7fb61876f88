"""What turns campaigns into records: notebooks in, papermill jobs out. Not a part of gdlib, which knows no notebook."""
