"""Advice on findings: one sentence per class of outcome, property of a written file, fault code or rule."""

from __future__ import annotations

from safetensors_reference import rule_book

ADVICE_BY_OUTCOME = {
    "memory": "Check every length and offset in the header against the file size before using it to access "
    "memory.",
    "crash": "Report every violation as the documented error of the library; check ranges before slicing, "
    "and never let a panic or an abort reach the caller.",
    "panic": "Catch the panic before it reaches the caller's language and raise the documented error "
    "instead; check ranges before slicing.",
    "resources": "Bound time and memory by the size of the file: check declared sizes against it before "
    "allocating, and limit nesting depth, counts and name lengths.",
    "late": "Validate the whole file when it is opened, so that no caller works with a file that is rejected "
    "later.",
    "reject": "Accept what the rule allows, or document the limit and declare the feature as missing.",
    "contradiction": "Choose one option and apply it in every code path of the reader.",
    "exception": "Raise only documented exception types, and wrap exceptions from other libraries.",
}
"""Advice by class of outcome; for the other classes, the advice depends on the fault."""

ADVICE_BY_PROPERTY = {
    "valid": "In the tests, read every written file back with a strict reader.",
    "target-unchanged": "Write to a new file and rename it when it is complete.",
    "one-file": "Remove the new file if saving fails.",
    "keeps-mode": "Give the new file the permissions of an ordinary file.",
    "keeps-link": "Resolve a symbolic link before renaming the new file.",
    "deterministic": "For equal input, always write the keys in the same order, whatever the order of "
    "the map.",
    "idempotent": "Keep the order in which tensors were loaded, so that saving them again changes nothing.",
    "header-padded": "Pad the header with spaces to a multiple of eight bytes.",
    "aligned": "Start every tensor at a multiple of its element size.",
    "compact-json": "Write the header without spaces between tokens.",
    "no-foreign-bytes": "Write only the elements of each tensor, not the memory next to them.",
}

ADVICE_BY_CODE = {
    "FRM_TOO_SHORT": "Reject files of fewer than 8 bytes before decoding the length.",
    "FRM_HEADER_EMPTY": "Reject a header length of zero.",
    "FRM_HEADER_OVER_LIMIT": "Compare the unsigned header length with the limit before allocating "
    "memory for the header.",
    "FRM_HEADER_PAST_EOF": "Compare 8 + N with the file size, using arithmetic that cannot overflow.",
    "HDR_NOT_UTF8": "Decode the header as strict UTF-8, and reject the file at the first invalid sequence.",
    "HDR_BAD_START": "Require the first byte of the header to be an opening brace, and do not guess "
    "the encoding.",
    "HDR_BAD_PADDING": "Allow only spaces between the closing brace and the end of the header.",
    "HDR_NOT_JSON": "Decode the header as strict UTF-8 and parse it as strict JSON; some parsers guess the "
    "encoding or accept NaN.",
    "HDR_NOT_OBJECT": "Require the header to be a JSON object.",
    "HDR_DUP_KEY": "Reject duplicate keys at every level with a pairs hook or a streaming parser; a map no "
    "longer contains the duplicates.",
    "HDR_TOO_DEEP": "Limit the nesting depth, and do not use recursion.",
    "ENT_NOT_OBJECT": "Require every tensor entry to be a JSON object.",
    "ENT_MISSING_FIELD": "Require dtype, shape and data_offsets in every entry; do not assume defaults.",
    "ENT_UNKNOWN_FIELD": "Reject fields that the format does not define.",
    "ENT_BAD_INTEGER": "Accept dimensions and offsets only as plain JSON integers from 0 to 2^64-1, and do "
    "not convert floats, strings or booleans; check the original text, since many parsers read -0 as 0.",
    "DTY_BAD_TYPE": "Require dtype to be a string.",
    "DTY_UNKNOWN": "Reject a dtype that is not in the table, including one that differs only in case.",
    "DTY_SUBBYTE": "Compute sizes in bits, and reject tensors that do not fill whole bytes.",
    "SHP_BAD_TYPE": "Require shape to be an array of integers.",
    "SHP_OVERFLOW": "Multiply the dimensions and the element size with overflow checks.",
    "OFF_BAD_PAIR": "Require data_offsets to contain exactly two integers.",
    "OFF_REVERSED": "Reject ranges that end before they begin, and check this before subtracting.",
    "OFF_OUT_OF_BOUNDS": "Compare the end of every range with the size of the buffer, using "
    "arithmetic that cannot overflow.",
    "OFF_SIZE_MISMATCH": "Compare the length of every range with the size that follows from the shape "
    "and the dtype.",
    "OFF_OVERLAP": "Sort the ranges, and require each range to begin where the previous one ends.",
    "OFF_HOLE": "Sort the ranges, and require an unbroken chain that starts at byte 0.",
    "OFF_TRAILING": "Require the last range to end at the end of the file.",
    "MET_NOT_MAP": "Require __metadata__ to be a JSON object.",
    "MET_VALUE_NOT_STRING": "Require every metadata value to be a string.",
    "WRT_BAD_NAME": "Reject reserved names and names that are not valid Unicode before writing anything.",
    "WRT_BAD_METADATA": "Reject metadata that is not a map of Unicode strings before writing anything.",
    "WRT_UNSUPPORTED_DTYPE": "Reject element types that the format does not have, and never convert "
    "them silently.",
    "WRT_NOT_CONTIGUOUS": "Copy non-contiguous tensors into row-major order, or reject them.",
    "WRT_SHARED_STORAGE": "Write each tensor's own bytes, or reject tensors that share memory.",
    "WRT_SIZE_MISMATCH": "Compare the length of the buffer with the shape and dtype that are passed with it.",
    "WRT_HEADER_OVER_LIMIT": "Compute the size of the header before writing, and reject the call if "
    "it exceeds the limit.",
    "API_NO_SUCH_TENSOR": "Look up names in the header, and raise the documented error for unknown names.",
    "API_DTYPE_UNSUPPORTED": "Reject only the tensor whose dtype the host does not support, and load "
    "the others.",
    "API_SLICE_UNSUPPORTED": "Raise the documented error for requests that cannot be served.",
    "API_CLOSED": "Raise the documented error for every use of a closed handle.",
    "API_SLICE_OUT_OF_RANGE": "Count negative bounds from the end, and check all bounds against the shape.",
    "API_TRUNCATED": "Check that every read returns as many bytes as requested, and reject a file that has "
    "become shorter.",
    "IDX_NOT_JSON": "Parse the index as a strict UTF-8 JSON object.",
    "IDX_NO_WEIGHT_MAP": "Require a weight_map that maps tensor names to file names.",
    "IDX_BAD_FILENAME": "Accept only plain names of files in the folder of the index as shard names.",
    "IDX_BAD_EXTENSION": "Reject shard names that do not end in .safetensors, and do not fall back to "
    "another loader.",
    "IDX_SHARD_MISSING": "Reject an index that names a shard that does not exist.",
    "IDX_TENSOR_MISSING": "Require every tensor of the index to be in the shard that the index names.",
    "IDX_TENSOR_UNINDEXED": "Compare the tensors of all shards with the index: neither may contain tensors "
    "that the other lacks.",
    "IDX_TENSOR_DUPLICATE": "Reject tensors that appear in two shards.",
    "IDX_SIZE_MISMATCH": "Compare total_size with the sum of the tensor sizes.",
}

ADVICE_BY_RULE = {
    "FRM-01": "Split the file into length, header and data buffer, and account for every byte.",
    "FRM-02": "Decode all eight bytes of the length, least significant byte first.",
    "FRM-04": "Compare 8 + N with the file size, using arithmetic that cannot overflow.",
    "FRM-05": "Decode the length as an unsigned number.",
    "FRM-08": "Accept headers of any length; do not require a multiple of eight.",
    "FRM-09": "Accept an empty header object as a file without tensors, and reject any bytes after "
    "the header.",
    "FRM-10": "Recognise the format by its content; do not require a magic number, a version or a "
    "file extension.",
    "FRM-11": "Accept every valid combination; to find the cause, simplify this file until it is accepted.",
    "HDR-04": "Include the padding in the header length, and reject spaces after the header as "
    "trailing bytes.",
    "HDR-05": "Do not let the UTF-8 decoder drop a byte-order mark, and reject one before or after "
    "the object.",
    "HDR-06": "Require the header to be one JSON object that is followed by nothing but spaces.",
    "HDR-08": "Accept spaces, tabs and line breaks between the tokens of the header.",
    "HDR-10": "Reject duplicate keys, and decode escapes before comparing keys.",
    "HDR-14": "Reject unescaped control characters in strings.",
    "HDR-15": "Decode all JSON escapes, and reject unpaired surrogates.",
    "HDR-17": "Accept header entries in any order: sort them by offset before comparing ranges.",
    "HDR-18": "Check the grammar of numbers even where their values are not used.",
    "HDR-19": "Compare and return strings code point by code point, without normalisation.",
    "HDR-20": "Use the same header parser for inspecting and for loading files.",
    "ENT-05": "Compare field names exactly, including their case.",
    "ENT-06": "Accept the three fields of an entry in any order.",
    "ENT-07": "Accept the empty string as a tensor name.",
    "ENT-08": "Return complete tensor names, including the part after a NUL.",
    "ENT-09": "Treat tensor names as data, never as paths, format strings or code.",
    "ENT-10": "Document the maximum length of a tensor name, and say in the error message that it is "
    "a limit.",
    "ENT-11": "Document the maximum number of tensors, and say in the error message that it is a limit.",
    "DTY-04": "Decode the escapes in a dtype before comparing it.",
    "DTY-05": "Take the width of an element from the dtype table.",
    "DTY-06": "Reject newer dtypes that are not known, with an error that names the dtype.",
    "DTY-08": "Read an element of a complex dtype as its real part followed by its imaginary part.",
    "DTY-10": "Interpret the shape of a packed dtype as a number of elements, not bytes.",
    "DTY-11": "Return packed elements as the raw bytes of the file, or document the order of the bits.",
    "DTY-12": "Accept packed tensors that fill whole bytes, even if the last dimension is odd.",
    "DTY-13": "Return 8-bit and 4-bit floats as raw bytes, or document how their values are mapped.",
    "DTY-14": "Return elements of the declared dtype, or reject the tensor.",
    "DTY-15": "Take the dtype codes from the table of the official library, not from its schema.",
    "SHP-01": "Require shape to be an array of integers of at least 0; reject booleans and fractions.",
    "SHP-03": "Interpret an empty shape as a scalar, which has one element.",
    "SHP-04": "Accept dimensions of zero; a tensor with such a dimension has no bytes.",
    "SHP-06": "Decide whether to reject an overflow next to a zero dimension, and do so in every code path.",
    "SHP-08": "Reject dimensions that cannot be represented, and never report a different dimension.",
    "SHP-09": "Reject tensors that cannot fit into memory before allocating memory for them.",
    "SHP-10": "Document the maximum number of dimensions, and say in the error message that it is a limit.",
    "SHP-11": "Return all dimensions in the correct order and with the correct values.",
    "OFF-01": "Require data_offsets to be exactly two integers of at least 0; reject booleans and fractions.",
    "OFF-09": "Allow empty tensors only at the start or end of the buffer or where two tensors meet.",
    "OFF-10": "Compare empty tensors at the same offset as a set.",
    "OFF-11": "Load tensors at any offset; copy them if the processor or the framework needs alignment.",
    "OFF-12": "Reject bytes between tensors that do not belong to any tensor, including padding.",
    "OFF-13": "Compute file positions with arithmetic that cannot overflow.",
    "OFF-14": "Use 64 bits for all offsets and positions.",
    "OFF-15": "Check the whole layout when the file is opened.",
    "MET-01": "Require __metadata__ to be a JSON object whose values are all strings.",
    "MET-02": "Decide whether to reject null metadata or treat it as absent, and do so in every code path.",
    "MET-03": "Interpret an empty metadata map as empty metadata, not as a tensor.",
    "MET-04": "Accept any string as a metadata key or value, and return it completely.",
    "MET-05": "Compare the reserved key exactly; any other key names a tensor.",
    "MET-06": "Decode the escapes in a key before comparing it with __metadata__.",
    "MET-07": "Reject metadata with values that are not strings, even if they look like tensor entries.",
    "MET-08": "Never let metadata affect which tensors are read or how they are read.",
    "MET-09": "Accept metadata with any keys; the common ones are only a convention.",
    "MET-10": "Document the maximum size of the metadata, and say in the error message that it is a limit.",
    "DAT-01": "Read and write the least significant byte of an element first, on every machine.",
    "DAT-02": "Read and write elements in row-major order, whatever their order in memory.",
    "DAT-03": "Read and write elements without gaps; the format has no strides.",
    "DAT-04": "Return values bit for bit, without checking or changing them.",
    "DAT-05": "Document how BOOL bytes other than 0 and 1 are read, and read them that way in every "
    "code path.",
    "DAT-06": "Return the bytes of the tensor's own range, unchanged.",
    "DAT-07": "Give each loaded tensor its own memory, or make it read-only.",
    "DAT-08": "Load the data bytes as they are; the format has no checksum.",
    "DAT-09": "Return only bytes that were actually read, and reject files that are shorter than their "
    "header says.",
    "LIM-01": "Compare the header length with the limit of 100,000,000 bytes before allocating memory for "
    "the header.",
    "LIM-02": "Compare the declared length with the file size before allocating memory for the header.",
    "LIM-03": "Bound the memory used for parsing by the length of the header.",
    "LIM-04": "Keep the parsing time proportional to the length of the header.",
    "LIM-05": "Check the ranges for overlaps before creating tensors.",
    "LIM-06": "Document every limit, and say in the error message that it is a limit and not a fault "
    "of the file.",
    "LIM-07": "Accept files of any size, and use 64 bits for sizes.",
    "LIM-08": "Read long numbers, long strings and deep nesting in time proportional to their length.",
    "LIM-09": "Truncate text from the file when error messages quote it.",
    "LIM-10": "If a header is longer than the first request, fetch the rest of it, up to a limit.",
    "WRT-01": ADVICE_BY_PROPERTY["valid"],
    "WRT-02": ADVICE_BY_PROPERTY["header-padded"],
    "WRT-03": "Write tensors in any order, as long as the offsets in the header match.",
    "WRT-04": ADVICE_BY_PROPERTY["aligned"],
    "WRT-05": "Write a valid file even if there are no tensors or the metadata map is empty.",
    "WRT-08": "Write the least significant byte of an element first, or reject big-endian arrays.",
    "WRT-10": "Reject names and metadata that are not Unicode strings before writing anything.",
    "WRT-12": ADVICE_BY_PROPERTY["deterministic"],
    "WRT-13": ADVICE_BY_PROPERTY["idempotent"],
    "WRT-14": ADVICE_BY_PROPERTY["target-unchanged"],
    "WRT-15": "Give a saved file the usual permissions, and keep a symbolic link at its path.",
    "WRT-18": "Write the header without optional spaces, and escape only what JSON requires.",
    "WRT-19": "Write to a new file, rename it when it is complete, and remove it if saving fails.",
    "WRT-20": "Compute sizes that come from callers with overflow checks.",
    "API-01": "Read only the length and the header when the file is opened, and read data on request.",
    "API-03": "List the names of all tensors in any order, without duplicates.",
    "API-04": "Load each tensor independently of the dtypes of the others.",
    "API-05": "Return the same result as slicing the whole tensor.",
    "API-07": "Raise the documented error for too many indices and for indices of a wrong type.",
    "API-08": "For slices that split a byte, raise the documented error or return complete bytes.",
    "API-09": "Check both ends of every slice against the tensor, and read no byte outside it.",
    "API-12": "Document whether the reader sees changes that are made after the file was opened.",
    "API-13": "Check the file type of a path before reading, and reject everything except regular files.",
    "API-14": ADVICE_BY_OUTCOME["exception"],
    "API-15": "Accept any buffer object wherever bytes are accepted.",
    "API-16": "Do not share mutable state between threads that read at the same time.",
    "API-17": "Use the same code for bytes in memory and for files.",
    "API-18": "Use the same code for checks and reads in every backend.",
    "API-19": "Answer questions about shape and dtype from the header.",
    "API-20": "Use positional reads; forked processes share the position of an open file.",
    "IDX-01": "Require the index to be a strict JSON object in UTF-8, without NaN, whose weight_map maps "
    "names to files.",
    "IDX-02": "Decide whether an index without metadata is accepted, and do so in every code path.",
    "IDX-03": "Compare total_size with the sum of the tensor sizes, or ignore it in every code path.",
    "IDX-06": "Document how shards that are symbolic links are treated.",
    "IDX-10": "Decide whether to load tensors that the index does not name, and do so in every code path.",
    "IDX-12": "Reject an index with duplicate keys.",
    "IDX-13": "Limit the size of an index before reading it; the limit should be well above the size of real "
    "indexes.",
    "IDX-14": "Check that the shards contain every tensor of the index before reporting success.",
    "IDX-15": "Load either the shards or the single file of a folder, never both; take the names from "
    "the index.",
    "IDX-16": "Reject a folder with several indexes, or document which one is preferred.",
    "IDX-17": "Write exactly the tensors of the shards into the index, without duplicates.",
    "IDX-18": "Start a new shard before the current one exceeds the requested limit.",
    "IDX-19": "Remove either all files of an earlier save or none of them.",
    "IDX-20": "Write only into the given folder, and remove only files of the saved model.",
    "IDX-21": "Write all shards under new names first, and rename them when all are complete.",
    "NET-01": "Check the status and the Content-Range of every response against the request.",
}
"""Advice by rule, for rules that have no fault code or whose fault code is too general."""

NOT_KNOWN = "rule not known"
NO_RULE = "Run the input again, and change it step by step to find what causes the wrong answer."
OTHER_RULE = "Read the rule, and compare it with the answer."


def recommendation(outcome: str, code: str | None, rule: str, broken: str = "") -> str:
    """Return advice on an accepted fault (``code``) or on a property of a written file (``broken``)."""
    if advice := ADVICE_BY_OUTCOME.get(outcome) or ADVICE_BY_PROPERTY.get(broken):
        return advice
    known = rule_book().rules.get(rule)
    # The file may also have faults that do not concern the rule.
    if outcome == "accept" and code in ADVICE_BY_CODE and (known is None or code in known.codes):
        return ADVICE_BY_CODE[code]
    return of_rule(rule)


def to_upstream(advice: str, parser: str) -> str:
    if not parser:
        return advice
    return f"{advice} The parser is the one of {parser} or a copy of it, so report the bug there."


def of_verdict(verdict: str, rule: str) -> str:
    """Return advice for a verdict under a rule; after a wrong reject, it is never to reject more."""
    return ADVICE_BY_OUTCOME["reject"] if verdict == "wrong-reject" else of_rule(rule)


def of_rule(rule: str) -> str:
    if not rule:
        return NO_RULE
    known = rule_book().rules.get(rule)
    codes = known.codes if known is not None else ()
    return ADVICE_BY_RULE.get(rule) or next(
        (ADVICE_BY_CODE[code] for code in codes if code in ADVICE_BY_CODE), OTHER_RULE
    )
