"""Advice on findings: one sentence per class of outcome, property of a written file, fault code or rule."""

from __future__ import annotations

from safetensors_reference import rule_book

ADVICE_BY_OUTCOME = {
    "memory": "Check every length and offset of the header against the file size before using it to access "
    "memory.",
    "crash": "Report every violation as the library's documented error; check ranges before slicing, and "
    "never let a panic or abort reach the caller.",
    "panic": "Catch the panic before it reaches the caller's language, and raise the documented error "
    "instead; check ranges before slicing.",
    "resources": "Bound time and memory by the size of the file: check declared sizes against it before "
    "allocating, and limit depth, counts and name lengths.",
    "late": "Validate the whole file on open, so that no caller works with a file that is refused later.",
    "reject": "Accept what the rule allows, or document the limit and declare the feature as missing.",
    "contradiction": "Choose one option and apply it on every path into the reader.",
    "exception": "Raise only documented exception types, and wrap those of other libraries.",
}
"""Advice by class of outcome; for the other classes it depends on the fault."""

ADVICE_BY_PROPERTY = {
    "valid": "Read every written file back with a strict reader in the tests.",
    "target-unchanged": "Write to a new file and rename it once it is complete.",
    "one-file": "Remove the new file when a save fails.",
    "keeps-mode": "Give the new file the permissions of an ordinary file.",
    "keeps-link": "Resolve a symbolic link before renaming the new file.",
    "deterministic": "Write equal input in one key order, independent of the order of the map.",
    "idempotent": "Keep the loaded order, so that saving again changes nothing.",
    "header-padded": "Pad the header with spaces to a multiple of eight bytes.",
    "aligned": "Start every tensor at a multiple of its element size.",
    "compact-json": "Write the header without spaces between tokens.",
    "no-foreign-bytes": "Write only the elements of each tensor, not the memory next to them.",
}

ADVICE_BY_CODE = {
    "FRM_TOO_SHORT": "Refuse files of fewer than 8 bytes before decoding the length.",
    "FRM_HEADER_EMPTY": "Refuse a header length of zero.",
    "FRM_HEADER_OVER_LIMIT": "Compare the unsigned header length with the limit before allocating for it.",
    "FRM_HEADER_PAST_EOF": "Check 8 + N against the file size in arithmetic that cannot overflow.",
    "HDR_NOT_UTF8": "Decode the header as strict UTF-8 and refuse it on the first bad sequence.",
    "HDR_BAD_START": "Require an opening brace as the first header byte, and do not guess an encoding.",
    "HDR_BAD_PADDING": "Allow only spaces between the closing brace and the end of the header.",
    "HDR_NOT_JSON": "Decode the header as strict UTF-8 and parse it as strict JSON; some parsers guess "
    "the encoding or accept NaN.",
    "HDR_NOT_OBJECT": "Require the header to be a JSON object.",
    "HDR_DUP_KEY": "Refuse duplicate keys at every level, with a pairs hook or a streaming parser: a map has "
    "already dropped them.",
    "HDR_TOO_DEEP": "Limit the nesting depth, and do not recurse.",
    "ENT_NOT_OBJECT": "Require every tensor entry to be a JSON object.",
    "ENT_MISSING_FIELD": "Require dtype, shape and data_offsets in every entry; do not assume defaults.",
    "ENT_UNKNOWN_FIELD": "Refuse fields that the format does not define.",
    "ENT_BAD_INTEGER": "Accept dimensions and offsets only as plain JSON integers from 0 to 2^64-1, without "
    "conversion from floats, strings or booleans; check the text, since many parsers read -0 as 0.",
    "DTY_BAD_TYPE": "Require dtype to be a string.",
    "DTY_UNKNOWN": "Refuse a dtype that is not in the table, case included.",
    "DTY_SUBBYTE": "Compute sizes in bits, and refuse tensors that do not fill whole bytes.",
    "SHP_BAD_TYPE": "Require shape to be an array of integers.",
    "SHP_OVERFLOW": "Multiply dimensions and element size in checked arithmetic.",
    "OFF_BAD_PAIR": "Require exactly two integers in data_offsets.",
    "OFF_REVERSED": "Refuse ranges that end before they begin, and check that before subtracting.",
    "OFF_OUT_OF_BOUNDS": "Check the end of every range against the buffer in arithmetic without overflow.",
    "OFF_SIZE_MISMATCH": "Compare the length of every range with the size that shape and dtype imply.",
    "OFF_OVERLAP": "Sort the ranges and require each to begin where the previous one ends.",
    "OFF_HOLE": "Sort the ranges and require an unbroken chain from byte 0.",
    "OFF_TRAILING": "Require the last range to end at the end of the file.",
    "MET_NOT_MAP": "Require __metadata__ to be a JSON object.",
    "MET_VALUE_NOT_STRING": "Require every metadata value to be a string.",
    "WRT_BAD_NAME": "Refuse reserved names and names that are not valid Unicode, before writing anything.",
    "WRT_BAD_METADATA": "Refuse metadata that is not a map of Unicode strings, before writing anything.",
    "WRT_UNSUPPORTED_DTYPE": "Refuse element types that the format lacks; never convert silently.",
    "WRT_NOT_CONTIGUOUS": "Copy non-contiguous tensors into row-major order, or refuse them.",
    "WRT_SHARED_STORAGE": "Write every tensor's own bytes, or refuse tensors that share memory.",
    "WRT_SIZE_MISMATCH": "Compare the length of a buffer with the shape and dtype passed with it.",
    "WRT_HEADER_OVER_LIMIT": "Compute the size of the header before writing, and refuse one above the limit.",
    "API_NO_SUCH_TENSOR": "Look up names in the header, and refuse unknown ones.",
    "API_DTYPE_UNSUPPORTED": "Refuse the one tensor whose dtype the host lacks, and load the others.",
    "API_SLICE_UNSUPPORTED": "Answer requests that cannot be served with the documented error.",
    "API_CLOSED": "Refuse every use of a closed handle.",
    "API_SLICE_OUT_OF_RANGE": "Count negative bounds from the end, and check all of them against the shape.",
    "API_TRUNCATED": "Compare every read with the request, and refuse a file that became shorter.",
    "IDX_NOT_JSON": "Parse the index as a strict UTF-8 JSON object.",
    "IDX_NO_WEIGHT_MAP": "Require a weight_map from tensor names to file names.",
    "IDX_BAD_FILENAME": "Accept only plain file names in the folder of the index as shard names.",
    "IDX_BAD_EXTENSION": "Refuse shard names that do not end in .safetensors; use no other loader.",
    "IDX_SHARD_MISSING": "Refuse an index that names a shard which does not exist.",
    "IDX_TENSOR_MISSING": "Require every tensor of the index in the shard that the index names.",
    "IDX_TENSOR_UNINDEXED": "Compare the tensors of every shard with the index, both ways.",
    "IDX_TENSOR_DUPLICATE": "Refuse tensors that appear in two shards.",
    "IDX_SIZE_MISMATCH": "Compare total_size with the sum of the tensor sizes.",
}

ADVICE_BY_RULE = {
    "FRM-01": "Split the file into length, header and data buffer, and account for every byte.",
    "FRM-02": "Decode all eight bytes of the length, least significant byte first.",
    "FRM-04": "Check 8 + N against the file size in arithmetic that cannot overflow.",
    "FRM-05": "Decode the length as an unsigned number.",
    "FRM-08": "Accept headers of any length; do not assume a multiple of eight.",
    "FRM-09": "Accept an empty header object as a file without tensors, and refuse any byte after it.",
    "FRM-10": "Recognise the format by its content; require no magic number, version or file extension.",
    "FRM-11": "Accept every valid combination; simplify this file until it is accepted to find the cause.",
    "HDR-04": "Include padding in the header length, and refuse spaces after it as trailing bytes.",
    "HDR-05": "Decode UTF-8 without dropping a byte-order mark, and refuse one before or after the object.",
    "HDR-06": "Require one JSON object as the header, followed by nothing but spaces.",
    "HDR-08": "Accept spaces, tabs and line breaks between the tokens of the header.",
    "HDR-10": "Refuse duplicate keys, compared after decoding their escapes.",
    "HDR-14": "Refuse unescaped control characters in strings.",
    "HDR-15": "Decode all JSON escapes, and refuse unpaired surrogates.",
    "HDR-17": "Accept header entries in any order: sort them by offset before comparing ranges.",
    "HDR-18": "Check the grammar of unused numbers too.",
    "HDR-19": "Compare and return strings code point by code point, without normalisation.",
    "HDR-20": "Use one header parser for inspection and loading.",
    "ENT-05": "Compare field names exactly, including case.",
    "ENT-06": "Accept the three fields of an entry in any order.",
    "ENT-07": "Accept the empty string as a tensor name.",
    "ENT-08": "Return whole tensor names, including the part after a NUL.",
    "ENT-09": "Treat tensor names as data, never as paths, format strings or code.",
    "ENT-10": "Document the maximum length of a tensor name, and say in the error that it is a limit.",
    "ENT-11": "Document the maximum number of tensors, and say in the error that it is a limit.",
    "DTY-04": "Compare the dtype after decoding its escapes.",
    "DTY-05": "Take the width of an element from the table of dtypes.",
    "DTY-06": "Refuse unknown newer dtypes with an error that names the dtype.",
    "DTY-08": "Read an element of a complex dtype as its real part and then its imaginary part.",
    "DTY-10": "Count elements, not bytes, in the shape of a packed dtype.",
    "DTY-11": "Return packed elements as the raw bytes of the file, or document the order of their bits.",
    "DTY-12": "Accept packed tensors that fill whole bytes, also with an odd last dimension.",
    "DTY-13": "Return 8-bit and 4-bit floats as raw bytes, or document how their values are mapped.",
    "DTY-14": "Return elements of the declared dtype, or refuse the tensor.",
    "DTY-15": "Take the codes of dtypes from the table of the official library, not from its schema.",
    "SHP-01": "Require shape to be an array of integers of at least 0, without booleans or fractions.",
    "SHP-03": "Read an empty shape as a scalar, which has one element.",
    "SHP-04": "Accept dimensions of zero: such a tensor has no bytes.",
    "SHP-06": "Decide whether to refuse an overflow next to a zero dimension, and do so on every path.",
    "SHP-08": "Refuse dimensions that cannot be represented, and never report a different one.",
    "SHP-09": "Refuse tensors that cannot fit into memory before allocating for them.",
    "SHP-10": "Document the maximum number of dimensions, and say in the error that it is a limit.",
    "SHP-11": "Return every dimension in its place and with its value.",
    "OFF-01": "Require exactly two integers of at least 0 in data_offsets, without booleans or fractions.",
    "OFF-09": "Allow empty tensors only at either end of the buffer or where two tensors meet.",
    "OFF-10": "Compare empty tensors at one offset as a set.",
    "OFF-11": "Load tensors at any offset; copy them if the processor or the framework needs alignment.",
    "OFF-12": "Refuse bytes between tensors that belong to none of them, padding included.",
    "OFF-13": "Compute file positions in arithmetic that cannot overflow.",
    "OFF-14": "Keep offsets and positions in 64 bits throughout.",
    "OFF-15": "Check the whole layout on open.",
    "MET-01": "Require __metadata__ to be a JSON object whose values are all strings.",
    "MET-02": "Decide whether to refuse null metadata or to read it as none, and do so on every path.",
    "MET-03": "Read an empty metadata map as empty metadata, not as a tensor.",
    "MET-04": "Accept any text as a metadata key or value, and return it whole.",
    "MET-05": "Compare the reserved key exactly; any other key names a tensor.",
    "MET-06": "Decode the escapes of a key before comparing it with __metadata__.",
    "MET-07": "Refuse metadata whose values are not all strings, including tensor entries.",
    "MET-08": "Never let metadata change which tensors are read, or how.",
    "MET-09": "Accept metadata with any keys: the usual ones are only a convention.",
    "MET-10": "Document the maximum size of the metadata, and say in the error that it is a limit.",
    "DAT-01": "Read and write elements least significant byte first, on any machine.",
    "DAT-02": "Read and write elements in row-major order, independent of their order in memory.",
    "DAT-03": "Read and write elements without gaps; the format has no strides.",
    "DAT-04": "Return values bit for bit, without checking or changing them.",
    "DAT-05": "Document how BOOL bytes other than 0 and 1 are read, and do so on every path.",
    "DAT-06": "Return the bytes of the tensor's own range, unchanged.",
    "DAT-07": "Give each loaded tensor its own memory, or make it read-only.",
    "DAT-08": "Load data bytes as they are: the format has no checksum.",
    "DAT-09": "Return only bytes that were read, and refuse files that are shorter than they claim.",
    "LIM-01": "Compare the header length with the limit of 100,000,000 bytes before allocating for it.",
    "LIM-02": "Check the claimed length against the file size before allocating for it.",
    "LIM-03": "Bound the memory for parsing by the length of the header.",
    "LIM-04": "Keep parsing time proportional to the length of the header.",
    "LIM-05": "Check the ranges for overlaps before creating tensors.",
    "LIM-06": "Document every limit, and say in the error that it is a limit, not a fault of the file.",
    "LIM-07": "Accept files of any size; keep sizes in 64 bits.",
    "LIM-08": "Read long numbers, long strings and deep nesting in time proportional to their length.",
    "LIM-09": "Truncate quotations from the file in errors.",
    "LIM-10": "Fetch the rest of headers that exceed the first request, up to a limit.",
    "WRT-01": ADVICE_BY_PROPERTY["valid"],
    "WRT-02": ADVICE_BY_PROPERTY["header-padded"],
    "WRT-03": "Write tensors in any order, as long as the offsets in the header match.",
    "WRT-04": ADVICE_BY_PROPERTY["aligned"],
    "WRT-05": "Write a valid file also without tensors and with an empty metadata map.",
    "WRT-08": "Write elements least significant byte first, or refuse big-endian arrays.",
    "WRT-10": "Refuse names and metadata that are not Unicode strings, before writing anything.",
    "WRT-12": ADVICE_BY_PROPERTY["deterministic"],
    "WRT-13": ADVICE_BY_PROPERTY["idempotent"],
    "WRT-14": ADVICE_BY_PROPERTY["target-unchanged"],
    "WRT-15": "Give a saved file the usual permissions, and keep a symbolic link at its path.",
    "WRT-18": "Write the header without optional spaces, and escape only what JSON requires.",
    "WRT-19": "Write to a new file, rename it once it is complete, and remove it if saving fails.",
    "WRT-20": "Compute sizes from callers in checked arithmetic.",
    "API-01": "Read only the length and the header on open, and data on request.",
    "API-03": "List the names of tensors in any order, each once.",
    "API-04": "Load each tensor on its own, independent of the dtypes of the others.",
    "API-05": "Return the same result as slicing the whole tensor.",
    "API-07": "Refuse too many indices, or indices of a wrong type, with the documented error.",
    "API-08": "Refuse slices that split a byte, or return them complete.",
    "API-09": "Check both ends of every slice against the tensor, and read no byte outside it.",
    "API-12": "Document whether the reader sees changes made after opening.",
    "API-13": "Check the file type of a path before reading, and refuse everything but regular files.",
    "API-14": ADVICE_BY_OUTCOME["exception"],
    "API-15": "Accept any buffer object where bytes are accepted.",
    "API-16": "Share no mutable state between threads that read at the same time.",
    "API-17": "Use the same code for bytes in memory and for files.",
    "API-18": "Use the same code for checks and reads in every backend.",
    "API-19": "Answer questions about shape and dtype from the header.",
    "API-20": "Use positional reads: forked processes share the position of an open file.",
    "IDX-01": "Require a strict JSON object in UTF-8, without NaN, whose weight_map maps names to files.",
    "IDX-02": "Decide whether an index may lack metadata, and do so on every path.",
    "IDX-03": "Compare total_size with the sum of the tensor sizes, or ignore it everywhere.",
    "IDX-06": "Document how shards that are symbolic links are treated.",
    "IDX-10": "Decide whether to load tensors that the index does not name, and do so on every path.",
    "IDX-12": "Refuse an index with duplicate keys.",
    "IDX-13": "Bound the size of an index before reading it, well above that of real ones.",
    "IDX-14": "Check that the shards contain every tensor of the index before reporting success.",
    "IDX-15": "Load either the shards or the single file of a folder, never both; take names from the index.",
    "IDX-16": "Refuse a folder with several indexes, or document which one is preferred.",
    "IDX-17": "Write exactly the tensors of the shards into the index, each once.",
    "IDX-18": "Start a new shard before one exceeds the requested limit.",
    "IDX-19": "Remove either all files of an earlier save or none.",
    "IDX-20": "Write only into the given folder, and remove only files of the saved model.",
    "IDX-21": "Write all shards under new names first, and rename them once all are complete.",
    "NET-01": "Check status and Content-Range of every response against the request.",
}
"""Advice by rule, for rules without a fault code or whose code is too general."""

NOT_KNOWN = "rule not known"
NO_RULE = "Run the input again, and change it part by part to find what causes the wrong answer."
OTHER_RULE = "Read the rule, and compare the answer with it."


def recommendation(outcome: str, code: str | None, rule: str, broken: str = "") -> str:
    """Return advice on a finding; ``code`` is the accepted fault, ``broken`` a property of a written file."""
    if advice := ADVICE_BY_OUTCOME.get(outcome) or ADVICE_BY_PROPERTY.get(broken):
        return advice
    known = rule_book().rules.get(rule)
    # A file may have other faults than the one charged; the reader missed one that the rule names.
    if outcome == "accept" and code in ADVICE_BY_CODE and (known is None or code in known.codes):
        return ADVICE_BY_CODE[code]
    return of_rule(rule)


def to_upstream(advice: str, parser: str) -> str:
    return (
        f"{advice} The parser is that of {parser} or a copy of it: report the bug there."
        if parser
        else advice
    )


def of_verdict(verdict: str, rule: str) -> str:
    """Return advice for a verdict under a rule; a wrong reject gets no advice to refuse."""
    return ADVICE_BY_OUTCOME["reject"] if verdict == "wrong-reject" else of_rule(rule)


def of_rule(rule: str) -> str:
    if not rule:
        return NO_RULE
    known = rule_book().rules.get(rule)
    codes = known.codes if known is not None else ()
    return ADVICE_BY_RULE.get(rule) or next(
        (ADVICE_BY_CODE[code] for code in codes if code in ADVICE_BY_CODE), OTHER_RULE
    )
