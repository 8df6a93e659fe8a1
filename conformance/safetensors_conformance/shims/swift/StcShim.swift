// Lets a safetensors reader in Swift take part in the conformance suite. Add this file to your target:
//
//     serve(name: "my-reader", version: "1.0", lacks: ["dtype-f4"]) { path, withData, answer in
//         let file = try MyReader(path: path)  // an error rejects the file
//         for t in file.tensors {
//             answer.tensor(t.name, dtype: t.dtype, shape: t.shape, bytes: withData ? t.data : nil)
//         }
//         answer.metadata(file.metadata)
//     }
//
// Report what your reader reports, and do not parse anything yourself. The shim reads the requests one at a time,
// computes digests and writes the answers. Output of the reader goes to standard error. A trap ends the program, as
// in any other program. The shim needs only Foundation.

import Foundation

/// Thrown for a valid file that the reader does not support.
struct UnsupportedFile: Error, CustomStringConvertible {
    let description: String
}

/// The answer for one file.
final class Answer {
    fileprivate let summary: Bool
    fileprivate var rows: [[String: Any]] = []
    fileprivate var pairs: [[Any]]?
    fileprivate var tellsMetadata = false

    fileprivate init(summary: Bool) {
        self.summary = summary
    }

    /// Reports a tensor. Pass nil for whatever the reader does not report. The bytes must be in the order of the
    /// file, and are nil if the file is only opened.
    func tensor(_ name: String, dtype: String?, shape: [UInt64]?, bytes: Data?) {
        var row: [String: Any] = ["name": name]
        if let dtype { row["dtype"] = dtype }
        if let shape { row["shape"] = shape.map { NSNumber(value: $0) } }
        if let bytes, !summary {
            row["nbytes"] = bytes.count
            row["sha256"] = sha256(bytes)
        }
        rows.append(row)
    }

    /// Reports the metadata map, where nil means that the file has no metadata.
    func metadata(_ map: [String: String]?) {
        tellsMetadata = true
        if let map { pairs = map.map { [$0.key, $0.value] } }
    }

    fileprivate func add(to answer: inout [String: Any]) {
        if summary {
            answer["tensor_count"] = rows.count
            return
        }
        answer["tensors"] = rows
        if let pairs {
            answer["metadata_items"] = pairs
        } else if tellsMetadata {
            answer["metadata"] = NSNull()
        }
    }
}

/// Answers requests until there are no more. `lacks` names features that the reader lacks, such as
/// "dtype-f4". `read` reads a file, or only opens it if its second argument is false. An error rejects the file.
func serve(name: String, version: String, lacks: [String] = [], read: (String, Bool, Answer) throws -> Void) {
    let answers = FileHandle(fileDescriptor: dup(1))
    dup2(2, 1)  // output of the reader must not appear between answers
    while let line = readLine() {
        guard let request = try? JSONSerialization.jsonObject(with: Data(line.utf8)) as? [String: Any] else {
            FileHandle.standardError.write(Data("the request is no JSON\n".utf8))
            exit(2)
        }
        var answer: [String: Any]
        switch request["cmd"] as? String {
        case "stop":
            return
        case "start":
            answer = [
                "protocol": 1, "steps": ["open", "read"], "lacks": lacks,
                "implementation": ["name": name, "version": version, "language": "Swift"],
            ]
        default:
            answer = run(request, read)
        }
        guard let text = try? JSONSerialization.data(withJSONObject: answer) else { exit(2) }
        answers.write(text + Data("\n".utf8))  // not buffered
    }
}

private func run(_ request: [String: Any], _ read: (String, Bool, Answer) throws -> Void) -> [String: Any] {
    var answer: [String: Any] = ["seq": request["seq"] ?? 0]
    let step = request["step"] as? String
    guard let path = request["path"] as? String, step == "open" || step == "read" else {
        answer["outcome"] = "unsupported"
        return answer
    }
    let told = Answer(summary: request["summary"] as? Bool ?? false)
    do {
        try read(path, step == "read", told)
        answer["outcome"] = "accept"
        told.add(to: &answer)
    } catch let error as UnsupportedFile {
        answer["outcome"] = "unsupported"
        answer["message"] = error.description
    } catch {
        answer["outcome"] = "reject"
        answer["message"] = "\(error)"
    }
    return answer
}

/// SHA-256, FIPS 180-4, in hex.
private func sha256(_ data: Data) -> String {
    var state: [UInt32] = [
        0x6a09_e667, 0xbb67_ae85, 0x3c6e_f372, 0xa54f_f53a, 0x510e_527f, 0x9b05_688c, 0x1f83_d9ab, 0x5be0_cd19,
    ]
    var bytes = [UInt8](data)
    let bits = UInt64(bytes.count) * 8
    bytes.append(0x80)
    while bytes.count % 64 != 56 { bytes.append(0) }
    for shift in stride(from: 56, through: 0, by: -8) { bytes.append(UInt8(truncatingIfNeeded: bits >> UInt64(shift))) }
    func rotated(_ x: UInt32, _ by: UInt32) -> UInt32 { x >> by | x << (32 - by) }
    var w = [UInt32](repeating: 0, count: 64)
    for block in stride(from: 0, to: bytes.count, by: 64) {
        for i in 0..<16 {
            w[i] = (0..<4).reduce(0) { $0 << 8 | UInt32(bytes[block + 4 * i + $1]) }
        }
        for i in 16..<64 {
            let a = rotated(w[i - 15], 7) ^ rotated(w[i - 15], 18) ^ w[i - 15] >> 3
            let b = rotated(w[i - 2], 17) ^ rotated(w[i - 2], 19) ^ w[i - 2] >> 10
            w[i] = w[i - 16] &+ w[i - 7] &+ a &+ b
        }
        var v = state
        for i in 0..<64 {
            let chosen = (v[4] & v[5]) ^ (~v[4] & v[6])
            let turned = rotated(v[4], 6) ^ rotated(v[4], 11) ^ rotated(v[4], 25)
            let one = v[7] &+ turned &+ chosen &+ constants[i] &+ w[i]
            let most = (v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2])
            let two = (rotated(v[0], 2) ^ rotated(v[0], 13) ^ rotated(v[0], 22)) &+ most
            v = [one &+ two, v[0], v[1], v[2], v[3] &+ one, v[4], v[5], v[6]]
        }
        for i in 0..<8 { state[i] = state[i] &+ v[i] }
    }
    return state.map { word in
        let digits = String(word, radix: 16)
        return String(repeating: "0", count: 8 - digits.count) + digits
    }.joined()
}

private let constants: [UInt32] = [
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5, 0xd807aa98,
    0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786,
    0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8,
    0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13,
    0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819,
    0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a,
    0x5b9cca4f, 0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7,
    0xc67178f2,
]
