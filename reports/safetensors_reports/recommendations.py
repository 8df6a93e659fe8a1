"""Advice on a finding: one sentence per class of outcome, property of a written file, fault code or rule."""

from __future__ import annotations

from safetensors_reference import rule_book

OF_OUTCOME = {
    "memory": "Check every length and offset of the header against the size of the file before any byte is "
    "touched through it.",
    "crash": "Turn every violation into the library's documented error; check ranges before slicing, and let "
    "no panic or abort reach the caller.",
    "panic": "Catch the panic before it reaches the caller's language, and raise the documented error "
    "instead; check ranges before slicing.",
    "resources": "Bound time and memory by the size of the file: check declared sizes against it before "
    "allocating, and cap depth, counts and name lengths.",
    "late": "Run the whole validation when the file is opened, so that no caller works with a file that "
    "will be refused.",
    "reject": "Accept what the rule grants, or document the limit and declare it as a lacking feature.",
    "contradiction": "Decide for one option and take it on every path into the reader.",
    "exception": "Raise only the documented types, and wrap what others raise.",
}
"""Class of outcome -> sentence; the other classes depend on the fault."""

OF_PROPERTY = {
    "valid": "Let tests read every file that is written back with a strict reader.",
    "target-unchanged": "Write to a new file and rename it when it is complete.",
    "one-file": "Remove the new file when a save fails.",
    "keeps-mode": "Give the new file the permissions that an ordinary one would have.",
    "keeps-link": "Resolve a symbolic link before the new file is renamed to it.",
    "deterministic": "Write equal input in one order of its keys, whatever order a map has them in.",
    "idempotent": "Keep the order of what was loaded, so that saving it again changes nothing.",
    "header-padded": "Pad the header with spaces to a multiple of eight bytes.",
    "aligned": "Begin every tensor at a multiple of its element size.",
    "compact-json": "Write the header without spaces between tokens.",
    "no-foreign-bytes": "Write the elements of each tensor and no memory beside them.",
}
"""Property of a written file that does not hold -> sentence."""

OF_CODE = {
    "FRM_TOO_SHORT": "Refuse files of fewer than 8 bytes before the length is decoded.",
    "FRM_HEADER_EMPTY": "Refuse a header length of zero.",
    "FRM_HEADER_OVER_LIMIT": "Compare the header length, unsigned, with the cap before allocating for it.",
    "FRM_HEADER_PAST_EOF": "Check 8 + N against the size of the file in arithmetic that cannot wrap.",
    "HDR_NOT_UTF8": "Decode the header as strict UTF-8 and refuse it on the first bad sequence.",
    "HDR_BAD_START": "Demand that the first header byte is an opening brace, and guess no encoding.",
    "HDR_BAD_PADDING": "Demand that only spaces follow the closing brace, up to the end of the header.",
    "HDR_NOT_JSON": "Decode the header as strict UTF-8 and parse it by JSON's grammar alone; some parsers "
    "guess the encoding, or take NaN.",
    "HDR_NOT_OBJECT": "Demand that the header is a JSON object.",
    "HDR_DUP_KEY": "Refuse a repeated key at every level; with a hook on pairs or a streaming parser, since "
    "a map has already lost it.",
    "HDR_TOO_DEEP": "Limit the depth of nesting, and do not recurse on it.",
    "ENT_NOT_OBJECT": "Demand that every tensor entry is a JSON object.",
    "ENT_MISSING_FIELD": "Demand dtype, shape and data_offsets of every entry; assume no default.",
    "ENT_UNKNOWN_FIELD": "Refuse fields that the format does not define.",
    "ENT_BAD_INTEGER": "Take dimensions and offsets only as plain JSON integers from 0 to 2^64-1, with no "
    "conversion from floats, strings or booleans; look at the text, since many parsers read -0 as 0.",
    "DTY_BAD_TYPE": "Demand that dtype is a string.",
    "DTY_UNKNOWN": "Refuse a dtype that is not in the table, case included.",
    "DTY_SUBBYTE": "Count in bits and refuse tensors that do not fill whole bytes.",
    "SHP_BAD_TYPE": "Demand that shape is an array of integers.",
    "SHP_OVERFLOW": "Multiply dimensions and element size in checked arithmetic.",
    "OFF_BAD_PAIR": "Demand exactly two integers in data_offsets.",
    "OFF_REVERSED": "Refuse a range that ends before it begins, before subtracting.",
    "OFF_OUT_OF_BOUNDS": "Check the end of every range against the buffer, in arithmetic that cannot wrap.",
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
    "API_DTYPE_UNSUPPORTED": "Refuse the one tensor whose dtype the host lacks, and load the others.",
    "API_SLICE_UNSUPPORTED": "Refuse a request that cannot be served with the documented error.",
    "API_CLOSED": "Refuse every use of a handle that was closed.",
    "API_SLICE_OUT_OF_RANGE": "Count negative bounds from the end, and check all of them against the shape.",
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

OF_RULE = {
    "FRM-01": "Split the file into length, header and data buffer, and account for every byte of it.",
    "FRM-02": "Decode all eight bytes of the length, the least significant one first.",
    "FRM-04": "Check 8 + N against the size of the file in arithmetic that cannot wrap.",
    "FRM-05": "Decode the length as an unsigned number.",
    "FRM-08": "Take a header of any length; read it without assuming that eight divides it.",
    "FRM-09": "Take an empty header object for a file without tensors, and refuse any byte behind it.",
    "FRM-10": "Tell the format by its content; ask for no magic number, version or ending of the name.",
    "FRM-11": "Accept every valid file, whatever it combines; simplify this one until it is accepted.",
    "HDR-04": "Count padding into the header length, and refuse spaces behind it as any other trailing byte.",
    "HDR-05": "Decode UTF-8 without dropping a byte-order mark, and refuse one before or behind the object.",
    "HDR-06": "Demand that the header is one JSON object, and that nothing but spaces follows it.",
    "HDR-08": "Take space, tab and line breaks between the tokens of the header.",
    "HDR-10": "Refuse repeated keys, compared after their escapes are decoded.",
    "HDR-14": "Refuse control characters in a string that are not escaped.",
    "HDR-15": "Decode all escapes of JSON, and refuse those of surrogates that are no pair.",
    "HDR-17": "Take the entries of the header in any order: sort them by offset before ranges are compared.",
    "HDR-18": "Check the grammar of numbers that are not used as well.",
    "HDR-19": "Compare and return strings code point by code point; normalise nothing.",
    "HDR-20": "Inspect and load with one parser of the header.",
    "ENT-05": "Compare the names of fields exactly, upper and lower case included.",
    "ENT-06": "Take the three fields of an entry in any order.",
    "ENT-07": "Take the empty string as the name of a tensor.",
    "ENT-08": "Return names of tensors whole, also behind a NUL.",
    "ENT-09": "Treat the name of a tensor as data: make no path, format string or code of it.",
    "ENT-10": "Document how long the name of a tensor may be, and say in the error that it is a limit.",
    "ENT-11": "Document how many tensors a file may have, and say in the error that it is a limit.",
    "DTY-04": "Compare the dtype after its escapes are decoded.",
    "DTY-05": "Take the width of an element from the table of dtypes.",
    "DTY-06": "Refuse a dtype that the reader is too old for by an error that names it.",
    "DTY-08": "Read an element of a complex dtype as its real part and then its imaginary part.",
    "DTY-10": "Count elements in the shape of a packed dtype, and not bytes.",
    "DTY-11": "Hand out packed elements as the raw bytes of the file, or document the order of their bits.",
    "DTY-12": "Take a packed tensor that fills whole bytes, also one with an odd last dimension.",
    "DTY-13": "Hand out 8-bit and 4-bit floats as raw bytes, or document how their values are mapped.",
    "DTY-14": "Deliver elements of the dtype that the file declares, or refuse the tensor.",
    "DTY-15": "Take the codes of dtypes from the table of the official library, not from its schema.",
    "SHP-01": "Demand that shape is an array of integers of at least 0; no boolean or fraction is one.",
    "SHP-03": "Read an empty shape as a scalar, which has one element.",
    "SHP-04": "Take dimensions of zero: such a tensor has no bytes.",
    "SHP-06": "Decide whether an overflow beside a zero dimension is refused, and do it on every path.",
    "SHP-08": "Refuse a dimension that cannot be held, and never report another one.",
    "SHP-09": "Refuse a tensor that cannot be held before anything is allocated for it.",
    "SHP-10": "Document how many dimensions a shape may have, and say in the error that it is a limit.",
    "SHP-11": "Return every dimension in its place and with its value.",
    "OFF-01": "Demand exactly two integers of at least 0 in data_offsets; no boolean or fraction is one.",
    "OFF-09": "Demand that an empty tensor lies at an end of the buffer or where two tensors meet.",
    "OFF-10": "Compare empty tensors at one offset as a set.",
    "OFF-11": "Load tensors from any byte; copy them where the processor or the framework needs alignment.",
    "OFF-12": "Refuse bytes between tensors that none of them accounts for, those of padding too.",
    "OFF-13": "Compute positions in the file in arithmetic that cannot wrap.",
    "OFF-14": "Hold offsets and positions in 64 bits on the whole way.",
    "OFF-15": "Check the whole layout when the file is opened.",
    "MET-01": "Demand that __metadata__ is a JSON object and every value in it a string.",
    "MET-02": "Decide whether metadata that is null is refused or read as none, and do it on every path.",
    "MET-03": "Read an empty metadata map as no content, not as a tensor.",
    "MET-04": "Take any text as a key or value of the metadata, and hand it out whole.",
    "MET-05": "Compare the reserved key exactly; any other key names a tensor.",
    "MET-06": "Decode the escapes of a key before it is compared with __metadata__.",
    "MET-07": "Refuse metadata whose values are not all strings, a tensor entry among them.",
    "MET-08": "Let no metadata change which tensors are read or how.",
    "MET-09": "Take metadata with any keys: the usual ones are a convention that nothing demands.",
    "MET-10": "Document how much metadata a file may have, and say in the error that it is a limit.",
    "DAT-01": "Read and write elements with the least significant byte first, on any machine.",
    "DAT-02": "Read and write elements in row-major order, whatever order they have in memory.",
    "DAT-03": "Read and write elements without gaps; the format has no strides.",
    "DAT-04": "Hand out values bit for bit; check and change none.",
    "DAT-05": "Document what a BOOL byte other than 0 and 1 becomes, and do it on every path.",
    "DAT-06": "Hand out the bytes of the tensor's own range, unchanged.",
    "DAT-07": "Give each loaded tensor memory of its own, or make it read-only.",
    "DAT-08": "Load data bytes as they are: there is no checksum to hold them against.",
    "DAT-09": "Hand out only bytes that were read, and refuse a file that is shorter than it claims.",
    "LIM-01": "Compare the header length with the cap of 100,000,000 bytes before allocating for it.",
    "LIM-02": "Check the claimed length against the size of the file before allocating for it.",
    "LIM-03": "Bound the memory for parsing by the length of the header.",
    "LIM-04": "Keep the time for parsing in proportion to the length of the header.",
    "LIM-05": "Check the ranges for overlaps before any tensor is made of them.",
    "LIM-06": "Document every limit, and say in the error that it is a limit and no fault of the file.",
    "LIM-07": "Take files of any size; hold sizes in 64 bits.",
    "LIM-08": "Read long numbers, long strings and deep nesting in time proportional to their length.",
    "LIM-09": "Cut what an error repeats of the file.",
    "LIM-10": "Fetch the rest of a header that is longer than the first request, and bound its size.",
    "WRT-01": OF_PROPERTY["valid"],
    "WRT-02": OF_PROPERTY["header-padded"],
    "WRT-03": "Write tensors in any order that the offsets in the header follow.",
    "WRT-04": OF_PROPERTY["aligned"],
    "WRT-05": "Write a valid file also for no tensors and an empty metadata map.",
    "WRT-08": "Write elements least significant byte first, or refuse arrays of the other byte order.",
    "WRT-10": "Refuse names and metadata that are no Unicode strings, before writing anything.",
    "WRT-12": OF_PROPERTY["deterministic"],
    "WRT-13": OF_PROPERTY["idempotent"],
    "WRT-14": OF_PROPERTY["target-unchanged"],
    "WRT-15": "Give a saved file the usual permissions, and keep the symbolic link that it is saved through.",
    "WRT-18": "Write the header without optional spaces, and escape only what JSON demands.",
    "WRT-19": "Write to a new file that is renamed when it is complete and removed when the save fails.",
    "WRT-20": "Compute sizes that callers give in checked arithmetic.",
    "API-01": "Read the length and the header when a file is opened, and data only when it is asked for.",
    "API-03": "List the names of tensors in any order, each once.",
    "API-04": "Load each tensor by itself, whatever dtypes its neighbours have.",
    "API-05": "Let a slice give what slicing the whole tensor gives.",
    "API-07": "Refuse indices that are too many or of a wrong type by the documented error.",
    "API-08": "Refuse a slice that cuts through a byte, or serve it whole.",
    "API-09": "Hold both ends of every slice against the tensor, and read no byte outside of it.",
    "API-12": "Document whether bytes that change after opening are seen.",
    "API-13": "Look what kind of file a path names before reading it, and refuse what is not a regular one.",
    "API-14": OF_OUTCOME["exception"],
    "API-15": "Take any object with a buffer where bytes are taken.",
    "API-16": "Let threads that read at the same time share no state that a read changes.",
    "API-17": "Read bytes in memory and files by the same code.",
    "API-18": "Check and read by the same code in every backend.",
    "API-19": "Answer questions about shape and dtype from the header.",
    "API-20": "Read at given positions: forked processes share the position of an open file.",
    "IDX-01": "Demand a strict JSON object in UTF-8, without NaN, whose weight_map goes from names to files.",
    "IDX-02": "Decide whether an index may lack its metadata, and do it on every path.",
    "IDX-03": "Compare total_size with the sum of the tensor sizes, or ignore it everywhere.",
    "IDX-06": "Document how shards are treated that are symbolic links.",
    "IDX-10": "Decide whether tensors that the index does not name are loaded, and do it on every path.",
    "IDX-12": "Refuse an index that has a key twice.",
    "IDX-13": "Bound the size of an index before reading it, well above that of real ones.",
    "IDX-14": "Look into the shards for every tensor that the index names before loading is called complete.",
    "IDX-15": "Load shards or the single file of a folder and never both; take the names from the index.",
    "IDX-16": "Refuse a folder with several indexes, or document which of them is preferred.",
    "IDX-17": "Write the index from what the shards hold, every tensor once, and nothing else.",
    "IDX-18": "Begin a new shard before one exceeds the limit that was asked for.",
    "IDX-19": "Remove all files of an earlier save or none of them.",
    "IDX-20": "Write only into the given folder, and remove only files of the model that is saved.",
    "IDX-21": "Write all shards under new names first, and rename them when all are complete.",
    "NET-01": "Hold the status and the Content-Range of every answer against what was asked for.",
}
"""Rule -> sentence, of rules without a fault code or about which the sentence of it tells too little."""

NOT_KNOWN = "rule not known"
"""Stands where findings name their rule, for one that fuzzing found and whose rule could not be told."""
NO_RULE = "Ask again for the input, and change it part by part to see what is answered wrongly."
"""Sentence where neither fault nor rule is known."""
OTHER_RULE = "Read what the rule says, and hold what was answered against it."
"""Sentence for a rule that this rule book does not have."""


def recommendation(outcome: str, code: str | None, rule: str, broken: str = "") -> str:
    """Return the one sentence for a finding.

    Args:
        outcome: its class, which decides where what to do about it depends on nothing else.
        code: fault code of the input that was accepted, if any.
        rule: the rule charged, empty for one that is not known.
        broken: property of a written file that does not hold, if any.
    """
    fixed = OF_OUTCOME.get(outcome) or OF_PROPERTY.get(broken)
    if fixed:
        return fixed
    known = rule_book().rules.get(rule)
    # A file may have a fault beside the rule that is charged; what was missed is one that the rule names.
    if outcome == "accept" and code in OF_CODE and (known is None or code in known.codes):
        return OF_CODE[code]
    return of_rule(rule)


def to_upstream(advice: str, parser: str) -> str:
    return f"{advice} The parser is that of {parser} or a copy of it: report it there." if parser else advice


def of_verdict(verdict: str, rule: str) -> str:
    """Return the one sentence for a verdict by a rule: who refuses too much is not told to refuse."""
    return OF_OUTCOME["reject"] if verdict == "wrong-reject" else of_rule(rule)


def of_rule(rule: str) -> str:
    if not rule:
        return NO_RULE
    known = rule_book().rules.get(rule)
    codes = known.codes if known is not None else ()
    return OF_RULE.get(rule) or next((OF_CODE[code] for code in codes if code in OF_CODE), OTHER_RULE)
