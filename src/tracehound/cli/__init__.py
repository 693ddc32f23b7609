"""The command line: options, commands, and the text streams of the process."""
