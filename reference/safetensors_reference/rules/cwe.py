"""Fault codes in the words of the Common Weakness Enumeration.

A file cannot have a weakness, a reader can: the entries name what a reader is exposed to that takes a file
with this fault. The primary one stands first. A code without an obvious entry has none.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

CWE_NAMES: Mapping[int, str] = MappingProxyType(
    {
        20: "Improper Input Validation",
        22: "Improper Limitation of a Pathname to a Restricted Directory ('Path Traversal')",
        125: "Out-of-bounds Read",
        130: "Improper Handling of Length Parameter Inconsistency",
        131: "Incorrect Calculation of Buffer Size",
        176: "Improper Handling of Unicode Encoding",
        190: "Integer Overflow or Wraparound",
        191: "Integer Underflow (Wrap or Wraparound)",
        248: "Uncaught Exception",
        367: "Time-of-check Time-of-use (TOCTOU) Race Condition",
        400: "Uncontrolled Resource Consumption",
        436: "Interpretation Conflict",
        502: "Deserialization of Untrusted Data",
        674: "Uncontrolled Recursion",
        681: "Incorrect Conversion between Numeric Types",
        684: "Incorrect Provision of Specified Functionality",
        694: "Use of Multiple Resources with Duplicate Identifier",
        770: "Allocation of Resources Without Limits or Throttling",
        787: "Out-of-bounds Write",
        789: "Memory Allocation with Excessive Size Value",
        908: "Use of Uninitialized Resource",
        1284: "Improper Validation of Specified Quantity in Input",
        1285: "Improper Validation of Specified Index, Position, or Offset in Input",
        1286: "Improper Validation of Syntactic Correctness of Input",
        1287: "Improper Validation of Specified Type of Input",
        1288: "Improper Validation of Consistency within Input",
    }
)
"""CWE number -> its official name."""

CWE_OF_CODE: Mapping[str, tuple[int, ...]] = MappingProxyType(
    {
        "FRM_TOO_SHORT": (125,),
        "FRM_HEADER_EMPTY": (1284,),
        "FRM_HEADER_OVER_LIMIT": (789, 1284),
        "FRM_HEADER_PAST_EOF": (130, 125),
        "HDR_NOT_UTF8": (176,),
        # Two readers that disagree about where the header begins or ends see two different files.
        "HDR_BAD_START": (1286, 436),
        "HDR_BAD_PADDING": (1286, 436),
        "HDR_NOT_JSON": (1286,),
        "HDR_NOT_OBJECT": (1287,),
        "HDR_DUP_KEY": (694, 436),
        "HDR_TOO_DEEP": (674,),
        "ENT_NOT_OBJECT": (1287,),
        "ENT_MISSING_FIELD": (),
        "ENT_UNKNOWN_FIELD": (),
        "ENT_BAD_INTEGER": (1284, 681),
        "DTY_BAD_TYPE": (1287,),
        "DTY_UNKNOWN": (),
        "DTY_SUBBYTE": (131,),
        "SHP_BAD_TYPE": (1287,),
        "SHP_OVERFLOW": (190, 131),
        "OFF_BAD_PAIR": (1287,),
        "OFF_REVERSED": (1285, 191),
        "OFF_OUT_OF_BOUNDS": (1285, 125),
        # A buffer made for the shape and filled from the range, or the other way round.
        "OFF_SIZE_MISMATCH": (1288, 125, 787),
        "OFF_OVERLAP": (1288, 436),
        "OFF_HOLE": (1288, 436),
        "OFF_TRAILING": (1288, 436),
        "MET_NOT_MAP": (1287,),
        "MET_VALUE_NOT_STRING": (1287,),
        "LIM_TENSORS": (770,),
        "LIM_RANK": (770,),
        "LIM_NAME": (770,),
        "LIM_METADATA": (770,),
        "LIM_MEMORY": (770,),
        "LIM_TIME": (400,),
        "IDX_NOT_JSON": (1286,),
        "IDX_NO_WEIGHT_MAP": (1287,),
        "IDX_BAD_FILENAME": (22,),
        # A loader that falls back to the file named in the index may unpickle it.
        "IDX_BAD_EXTENSION": (502,),
        "IDX_SHARD_MISSING": (908,),
        "IDX_TENSOR_MISSING": (908,),
        "IDX_TENSOR_UNINDEXED": (436,),
        "IDX_TENSOR_DUPLICATE": (694, 436),
        "IDX_SIZE_MISMATCH": (1284,),
    }
)
"""Fault code -> CWE numbers, for every code that a file or an index can be found to have."""
