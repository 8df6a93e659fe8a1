// An example of StcShim with a minimal reader, which checks almost nothing.
//
//     swiftc -O -o example StcShim.swift main.swift && stc check-protocol --impl "cmd:./example"

import Foundation

struct Broken: Error {
    let why: String
}

serve(name: "example", version: "1.0", lacks: ["dtype-f4"]) { path, withData, answer in
    let file = try Data(contentsOf: URL(fileURLWithPath: path))
    guard file.count >= 8 else { throw Broken(why: "no length prefix") }
    let length = file.prefix(8).reversed().reduce(UInt64(0)) { $0 << 8 | UInt64($1) }
    guard length <= UInt64(file.count - 8) else { throw Broken(why: "the header leaves the file") }
    let begin = 8 + Int(length)
    guard let header = try JSONSerialization.jsonObject(with: file[8..<begin]) as? [String: Any] else {
        throw Broken(why: "the header is no object")
    }
    for (name, value) in header where name != "__metadata__" {
        guard let entry = value as? [String: Any], let dtype = entry["dtype"] as? String,
            let shape = entry["shape"] as? [UInt64], let range = entry["data_offsets"] as? [Int],
            range.count == 2, 0 <= range[0], range[0] <= range[1], range[1] <= file.count - begin
        else { throw Broken(why: "an entry is broken") }
        answer.tensor(name, dtype: dtype, shape: shape, bytes: withData ? file[(begin + range[0])..<(begin + range[1])] : nil)
    }
    answer.metadata(header["__metadata__"] as? [String: String])
}
