"""Shows part of a file in hexadecimal, with a range marked."""

from __future__ import annotations

WIDTH = 16


def hexview(data: bytes, start: int, end: int, *, base: int = 0, limit: int = 96) -> str:
    """Return lines of 16 bytes around ``[start, end)``, with the range marked by ``^^``.

    ``data`` begins at file position ``base``.
    """
    first = max(start - base - WIDTH, 0) // WIDTH * WIDTH
    last = min(len(data), first + limit, max(-(-(end - base + WIDTH) // WIDTH) * WIDTH, WIDTH))
    if start == end == 0:
        last = min(len(data), limit)
    lines = []
    for row in range(first, last, WIDTH):
        chunk = data[row : min(row + WIDTH, last)]
        hexes = " ".join(f"{b:02x}" for b in chunk)
        text = "".join(chr(b) if 0x20 <= b < 0x7F else "." for b in chunk)
        lines.append(f"{base + row:08x}  {hexes:<{WIDTH * 3 - 1}}  {text}")
        marks = [start <= base + row + i < end for i in range(len(chunk))]
        if any(marks):
            line = " ".join("^^" if m else "  " for m in marks)
            lines.append(f"          {line}".rstrip())
    if first + limit < len(data) and last < len(data) and end - base > last:
        lines.append(f"          … up to byte {end - 1:#x}")
    return "\n".join(lines)
