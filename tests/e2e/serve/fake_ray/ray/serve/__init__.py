raise AssertionError("the installed ray.serve was imported")
