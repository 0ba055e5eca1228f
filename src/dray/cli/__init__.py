"""The command line: one file a command, with `add_arguments(parser)` and `run(arguments) -> exit code`.

In: the user's words.
Out: tables for people, `-o json` for programs, exit codes; errors as one line on stderr.
Next: nothing; this is a face.
"""
