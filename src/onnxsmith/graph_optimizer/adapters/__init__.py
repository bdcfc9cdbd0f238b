"""Optimisers of others as passes, one a file, each in a child process and its result checked like ours."""
