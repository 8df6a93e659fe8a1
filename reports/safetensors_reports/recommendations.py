"""Advice on a finding: one sentence per class of outcome, fault code or area of rules."""

from __future__ import annotations

OF_OUTCOME = {
    "memory": "Check every length and offset of the header against the size of the file before any byte is "
    "touched through it.",
    "crash": "Turn every violation into the library's documented error; check ranges before slicing, and let "
    "no panic or abort reach the caller.",
    "resources": "Bound time and memory by the size of the file: check declared sizes against it before "
    "allocating, and cap depth, counts and name lengths.",
    "late": "Run the whole validation when the file is opened, so that no caller works with a file that "
    "will be refused.",
    "reject": "Accept what the rule grants, or document the limit and declare it as a lacking feature.",
    "contradiction": "Decide for one option and take it on every path into the reader.",
    "strictness": "Follow the recommendation, or document why not.",
}
"""Class of outcome -> sentence; the other classes depend on the fault."""

OF_CODE = {
    "FRM_TOO_SHORT": "Refuse files of fewer than 8 bytes before the length is decoded.",
    "FRM_HEADER_EMPTY": "Refuse a header length of zero.",
    "FRM_HEADER_OVER_LIMIT": "Compare the header length, unsigned, with the cap before allocating for it.",
    "FRM_HEADER_PAST_EOF": "Check 8 + N against the size of the file in arithmetic that cannot wrap.",
    "HDR_NOT_UTF8": "Decode the header as strict UTF-8 and refuse it on the first bad sequence.",
    "HDR_BAD_START": "Demand that the first header byte is an opening brace.",
    "HDR_BAD_PADDING": "Demand that only spaces follow the closing brace, up to the end of the header.",
    "HDR_NOT_JSON": "Parse the header with a parser that takes JSON's grammar and no extension of it.",
    "HDR_NOT_OBJECT": "Demand that the header is a JSON object.",
    "HDR_DUP_KEY": "Refuse a repeated key at every level; with a hook on pairs or a streaming parser, since "
    "a map has already lost it.",
    "HDR_TOO_DEEP": "Limit the depth of nesting, and do not recurse on it.",
    "ENT_NOT_OBJECT": "Demand that every tensor entry is a JSON object.",
    "ENT_MISSING_FIELD": "Demand dtype, shape and data_offsets of every entry; assume no default.",
    "ENT_UNKNOWN_FIELD": "Refuse fields that the format does not define.",
    "ENT_BAD_INTEGER": "Take dimensions and offsets only as plain JSON integers from 0 to 2^64-1, with no "
    "conversion from floats, strings or booleans.",
    "DTY_BAD_TYPE": "Demand that dtype is a string.",
    "DTY_UNKNOWN": "Refuse a dtype that is not in the table, case included.",
    "DTY_SUBBYTE": "Count in bits and refuse tensors that do not fill whole bytes.",
    "SHP_BAD_TYPE": "Demand that shape is an array of integers.",
    "SHP_OVERFLOW": "Multiply dimensions and element size in checked arithmetic.",
    "OFF_BAD_PAIR": "Demand exactly two integers in data_offsets.",
    "OFF_REVERSED": "Refuse a range that ends before it begins, before subtracting.",
    "OFF_OUT_OF_BOUNDS": "Check the end of every range against the data buffer.",
    "OFF_SIZE_MISMATCH": "Compare the length of every range with what shape and dtype imply.",
    "OFF_OVERLAP": "Sort the ranges and demand that each begins where its predecessor ends.",
    "OFF_HOLE": "Sort the ranges and demand an unbroken chain from byte 0.",
    "OFF_TRAILING": "Demand that the last range ends at the end of the file.",
    "MET_NOT_MAP": "Demand that __metadata__ is a JSON object.",
    "MET_VALUE_NOT_STRING": "Demand that every metadata value is a string.",
    "WRT_BAD_NAME": "Refuse reserved names and names that are no Unicode text, before writing anything.",
    "WRT_BAD_METADATA": "Refuse metadata that is not a map of Unicode strings, before writing anything.",
    "WRT_UNSUPPORTED_DTYPE": "Refuse element types that the format does not have; convert nothing silently.",
    "WRT_NOT_CONTIGUOUS": "Copy what is not contiguous into row-major order, or refuse it.",
    "WRT_SHARED_STORAGE": "Write every tensor's own bytes, or refuse tensors that share their memory.",
    "WRT_SIZE_MISMATCH": "Compare the length of a buffer with the shape and dtype that come with it.",
    "WRT_HEADER_OVER_LIMIT": "Compute the size of the header before writing, and refuse one above the cap.",
    "API_NO_SUCH_TENSOR": "Look names up in the header, and refuse those that are not in it.",
    "API_SLICE_OUT_OF_RANGE": "Hold every index against the shape, in checked arithmetic; clamp or refuse.",
    "API_TRUNCATED": "Compare every read with what was asked for, and refuse a file that became shorter.",
    "IDX_NOT_JSON": "Parse the index as a strict UTF-8 JSON object.",
    "IDX_NO_WEIGHT_MAP": "Demand a weight_map from tensor names to file names.",
    "IDX_BAD_FILENAME": "Take shard names as plain file names of the index's own folder and nothing else.",
    "IDX_BAD_EXTENSION": "Refuse shard names that do not end in .safetensors; fall back to no other loader.",
    "IDX_SHARD_MISSING": "Refuse an index that names a shard which does not exist.",
    "IDX_TENSOR_MISSING": "Demand every tensor of the index from the shard it names.",
    "IDX_TENSOR_UNINDEXED": "Compare the tensors of every shard with the index, both ways.",
    "IDX_TENSOR_DUPLICATE": "Refuse a tensor that two shards hold.",
    "IDX_SIZE_MISMATCH": "Compare total_size with the sum of the tensor sizes.",
}
"""Fault code -> sentence."""

OF_AREA = {
    "FRM": "Check the framing against the size of the file before anything else.",
    "HDR": "Hold the header against the JSON rules of the format with a strict parser.",
    "ENT": "Validate every field of every entry, and keep names as they are.",
    "DTY": "Take element sizes and types from one table, and convert nothing silently.",
    "SHP": "Compute sizes in checked arithmetic, and keep shapes as they are.",
    "OFF": "Validate ranges one by one and as a chain.",
    "MET": "Hand metadata out as it is, strings by strings, and let it influence nothing else.",
    "DAT": "Hand out the bytes of the file, little-endian and row-major, and none besides.",
    "LIM": "Document every limit, and check it before the work that it bounds.",
    "WRT": "Validate before writing, write to a new file and rename it, and let tests read it back.",
    "API": "Check requests against the header, and files again when they are read.",
    "IDX": "Validate the index, its shard names and the shards' contents against one another.",
    "NET": "Hold the status and the Content-Range of every answer against what was asked for.",
}
"""Area of rules -> sentence, where nothing closer fits."""

NOT_KNOWN = "rule not known"
"""Stands where findings name their rule, for one that fuzzing found and whose rule could not be told."""
NO_RULE = "Ask again for the input, and change it part by part to see what is answered wrongly."
"""Sentence where neither fault nor rule is known."""


def recommendation(outcome: str, code: str | None, rule: str) -> str:
    """Return the one sentence for a class of outcome, the fault missed and the rule, if known."""
    return OF_OUTCOME.get(outcome) or OF_CODE.get(code or "") or of_area(rule)


def of_area(rule: str) -> str:
    """Return the one sentence for the area of a rule, empty for a rule that is not known."""
    return OF_AREA[rule[:3]] if rule else NO_RULE
