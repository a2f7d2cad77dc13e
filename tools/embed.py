#!/usr/bin/env python3
"""Writes the bytes of a file as a C array, for the build.

    tools/embed.py FILE NAME OUT.c     gives NAME[] and NAME_len
"""

import sys
from pathlib import Path


def main():
    source, name, out = sys.argv[1:]
    data = Path(source).read_bytes()
    rows = [" ".join(f"{b}," for b in data[i:i + 24]) for i in range(0, len(data), 24)]
    Path(out).write_text("#include <stddef.h>\n\n"
                         f"extern const unsigned char {name}[];\nextern const size_t {name}_len;\n\n"
                         f"const unsigned char {name}[] = {{\n" + "\n".join(rows) + "\n};\n"
                         f"const size_t {name}_len = sizeof({name});\n")


if __name__ == "__main__":
    main()
