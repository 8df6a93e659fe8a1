// Lets a safetensors reader in C++ take part in the conformance suite: one header, C++17, only the standard
// library and POSIX.
//
//     int main() {
//         return stc::serve({"my-reader", "1.0", "C++", {"dtype-f4"}}, [](const std::string &path, bool with_data,
//                                                                          stc::Answer &answer) {
//             my::File file(path);  // an exception rejects the file
//             for (const auto &t : file.tensors())
//                 answer.tensor(t.name, t.dtype, t.shape, with_data ? t.data : nullptr, t.size);
//             answer.metadata(file.metadata());
//         });
//     }
//
// Report what your reader reports, and do not parse anything yourself. The shim reads the requests one at a time,
// computes digests and writes the answers. Output of the reader goes to standard error.
#pragma once

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <functional>
#include <iostream>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <unistd.h>
#include <vector>

namespace stc {

struct Program {
    std::string name, version, language = "C++";
    std::vector<std::string> lacks;  // features that the reader lacks, such as "dtype-f4"
    bool verdict_only = false;       // it only accepts or rejects files and does not report tensors
};

// Thrown for a valid file that the reader does not support.
struct Unsupported : std::runtime_error {
    using std::runtime_error::runtime_error;
};

namespace detail {

// Whether bytes are UTF-8 as Unicode defines it: no overlong forms, no surrogates, nothing above U+10FFFF.
inline bool is_utf8(std::string_view text) {
    for (size_t at = 0; at < text.size();) {
        unsigned lead = static_cast<unsigned char>(text[at++]), more = lead < 0x80 ? 0 : lead < 0xE0 ? 1 : lead < 0xF0 ? 2 : 3;
        unsigned low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
        unsigned high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
        if ((lead >= 0x80 && lead < 0xC2) || lead > 0xF4 || text.size() - at < more) return false;
        for (; more; more--, low = 0x80, high = 0xBF) {
            unsigned byte = static_cast<unsigned char>(text[at++]);
            if (byte < low || byte > high) return false;
        }
    }
    return true;
}

inline std::string hex(std::string_view bytes) {
    static const char digits[] = "0123456789abcdef";
    std::string out;
    for (unsigned char c : bytes) out += {digits[c >> 4], digits[c & 15]};
    return out;
}

// Returns a JSON string, or {"hex": ...} for bytes that are not UTF-8.
inline std::string quoted(std::string_view text) {
    if (!is_utf8(text)) return "{\"hex\": \"" + hex(text) + "\"}";
    std::string out = "\"";
    for (char c : text) {
        if (static_cast<unsigned char>(c) < 0x20 || c == '"' || c == '\\') out += "\\u00" + hex({&c, 1});
        else out += c;
    }
    return out + "\"";
}

// SHA-256, FIPS 180-4.
inline std::string sha256(std::string_view bytes) {
    static const uint32_t k[64] = {
        0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
        0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
        0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
        0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
        0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
        0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
        0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
        0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
    };
    std::array<uint32_t, 8> state = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                     0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    const auto rotated = [](uint32_t x, int by) { return x >> by | x << (32 - by); };
    const auto block = [&](const char *begin) {
        uint32_t w[64];
        for (int i = 0; i < 64; i++) {
            if (i < 16) {
                const auto *b = reinterpret_cast<const unsigned char *>(begin) + 4 * i;
                w[i] = uint32_t{b[0]} << 24 | uint32_t{b[1]} << 16 | uint32_t{b[2]} << 8 | b[3];
                continue;
            }
            uint32_t a = w[i - 15], b = w[i - 2];
            w[i] = w[i - 16] + w[i - 7] + (rotated(a, 7) ^ rotated(a, 18) ^ a >> 3) +
                   (rotated(b, 17) ^ rotated(b, 19) ^ b >> 10);
        }
        auto v = state;
        for (int i = 0; i < 64; i++) {
            uint32_t a = v[0], e = v[4];
            uint32_t one = v[7] + (rotated(e, 6) ^ rotated(e, 11) ^ rotated(e, 25)) +
                           ((e & v[5]) ^ (~e & v[6])) + k[i] + w[i];
            uint32_t two = (rotated(a, 2) ^ rotated(a, 13) ^ rotated(a, 22)) +
                           ((a & v[1]) ^ (a & v[2]) ^ (v[1] & v[2]));
            v = {one + two, v[0], v[1], v[2], v[3] + one, v[4], v[5], v[6]};
        }
        for (int i = 0; i < 8; i++) state[i] += v[i];
    };
    size_t at = 0;
    for (; at + 64 <= bytes.size(); at += 64) block(bytes.data() + at);
    std::string last(bytes.substr(at));
    last += '\x80';
    last.resize(last.size() > 56 ? 120 : 56);
    for (int i = 8; i--;) last += static_cast<char>(uint64_t{bytes.size()} * 8 >> 8 * i);
    for (at = 0; at < last.size(); at += 64) block(last.data() + at);
    std::string out;
    for (uint32_t word : state)
        for (int shift = 24; shift >= 0; shift -= 8) out += static_cast<char>(word >> shift);
    return hex(out);
}

// Returns the value of a key in the object, or nothing. Requests from the harness are always well formed.
inline std::string_view member(std::string_view text, std::string_view key) {
    int depth = 0;
    for (size_t at = 0; at < text.size(); at++) {
        depth += (text[at] == '{' || text[at] == '[') - (text[at] == '}' || text[at] == ']');
        if (text[at] != '"') continue;
        size_t begin = ++at;
        while (at < text.size() && text[at] != '"') at += text[at] == '\\' ? 2 : 1;
        if (depth != 1 || text.substr(begin, at - begin) != key) continue;
        size_t colon = text.find_first_not_of(" ", at + 1);
        if (colon < text.size() && text[colon] == ':') return text.substr(text.find_first_not_of(" ", colon + 1));
    }
    return {};
}

// Returns the text of a JSON string.
inline std::string unescaped(std::string_view text) {
    std::string out;
    const auto hex4 = [&](size_t at) { return std::stoul(std::string(text.substr(at, 4)), nullptr, 16); };
    for (size_t at = 1; at < text.size() && text[at] != '"'; at++) {
        if (text[at] != '\\') {
            out += text[at];
            continue;
        }
        static constexpr std::string_view letters = "bfnrt", meant = "\b\f\n\r\t";
        char letter = text[++at];
        if (letter != 'u') {
            size_t found = letters.find(letter);
            out += found == letters.npos ? letter : meant[found];
            continue;
        }
        unsigned long code = hex4(at + 1);
        at += 4;
        if (code >= 0xD800 && code < 0xDC00) {
            code = 0x10000 + ((code - 0xD800) << 10) + (hex4(at + 3) - 0xDC00);
            at += 6;
        }
        int more = code < 0x80 ? 0 : code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
        out += static_cast<char>(more ? 0xFF00 >> (more + 1) | code >> 6 * more : code);
        while (more--) out += static_cast<char>(0x80 | (code >> 6 * more & 63));
    }
    return out;
}

}  // namespace detail

// The answer for one file.
class Answer {
  public:
    explicit Answer(bool summary) : summary_(summary) {}

    // Reports a tensor. Omit dtype and shape if the reader does not report them. The bytes must be in the order
    // of the file, and are null if the file is only opened.
    template <class Shape>
    void tensor(std::string_view name, std::optional<std::string_view> dtype, const Shape &shape, const void *bytes,
                size_t size) {
        if (count_++) tensors_ += ", ";
        if (summary_) return;
        tensors_ += "{\"name\": " + detail::quoted(name);
        if (dtype) tensors_ += ", \"dtype\": " + detail::quoted(*dtype);
        std::string dims;
        for (auto dim : shape) dims += (dims.empty() ? "" : ", ") + std::to_string(dim);
        tensors_ += ", \"shape\": [" + dims + "]";
        if (bytes || (!size && with_data_)) {
            std::string_view data(bytes ? static_cast<const char *>(bytes) : "", size);
            tensors_ += ", \"nbytes\": " + std::to_string(size) + ", \"sha256\": \"" + detail::sha256(data) + "\"";
        }
        tensors_ += "}";
    }

    // Reports the metadata, given as a range of pairs that may be empty.
    template <class Map> void metadata(const Map &map) {
        metadata_ = metadata_.value_or("");
        for (const auto &[key, value] : map) metadata(key, value);
    }
    void metadata(std::string_view key, std::string_view value) {
        metadata_ = metadata_.value_or("");
        *metadata_ += (metadata_->empty() ? "[" : ", [") + detail::quoted(key) + ", " + detail::quoted(value) + "]";
    }
    // Declares that the reader reports metadata, even if there is none.
    void no_metadata() { has_none_ = true; }

    void with_data(bool yes) { with_data_ = yes; }
    std::string text() const {
        if (summary_) return ", \"tensor_count\": " + std::to_string(count_);
        std::string out = ", \"tensors\": [" + tensors_ + "]";
        if (metadata_) return out + ", \"metadata_items\": [" + *metadata_ + "]";
        return has_none_ ? out + ", \"metadata\": null" : out;
    }

  private:
    bool summary_, with_data_ = false, has_none_ = false;
    size_t count_ = 0;
    std::string tensors_;
    std::optional<std::string> metadata_;
};

// Reads a file, or only opens it if with_data is false. Throws to reject it.
using Read = std::function<void(const std::string &path, bool with_data, Answer &answer)>;

namespace detail {

inline std::string refusal(const char *outcome, std::string why) {
    if (!is_utf8(why))
        for (char &c : why)
            if (c & 0x80) c = '?';
    return std::string("\"") + outcome + "\", \"message\": " + quoted(why);
}

inline std::string run(std::string_view request, const Read &read, bool verdict_only) {
    std::string_view step = member(request, "step");
    bool reading = step.substr(0, 6) == "\"read\"";
    if (!reading && step.substr(0, 6) != "\"open\"") return refusal("unsupported", "the step is not known");
    Answer answer(member(request, "summary").substr(0, 4) == "true");
    answer.with_data(reading);
    try {
        read(unescaped(member(request, "path")), reading, answer);
        return "\"accept\"" + (verdict_only ? "" : answer.text());
    } catch (const Unsupported &err) {
        return refusal("unsupported", err.what());
    } catch (const std::exception &err) {
        return refusal("reject", err.what());
    } catch (...) {
        return refusal("reject", "an exception of another kind");
    }
}

inline std::string start(const Program &program) {
    std::string lacks;
    for (const auto &feature : program.lacks) lacks += (lacks.empty() ? "" : ", ") + quoted(feature);
    return "{\"protocol\": 1, \"steps\": [\"open\", \"read\"], \"implementation\": {\"name\": " + quoted(program.name) +
           ", \"version\": " + quoted(program.version) + ", \"language\": " + quoted(program.language) +
           "}, \"lacks\": [" + lacks + "]" + (program.verdict_only ? ", \"verdict_only\": true" : "") + "}\n";
}

}  // namespace detail

// Answers requests until there are no more. Returns the exit status of the program.
inline int serve(const Program &program, const Read &read) {
    // Output of the reader must not mix with answers.
    std::FILE *answers = fdopen(dup(1), "w");
    if (!answers || dup2(2, 1) < 0) return 2;
    for (std::string line; std::getline(std::cin, line);) {
        std::string_view command = detail::member(line, "cmd");
        if (command.empty() || command.substr(0, 6) == "\"stop\"") break;
        std::string seq(detail::member(line, "seq"));
        seq.resize(std::min(seq.size(), seq.find_first_not_of("0123456789")));
        std::string out = command.substr(0, 7) == "\"start\""
                              ? detail::start(program)
                              : "{\"seq\": " + seq + ", \"outcome\": " + detail::run(line, read, program.verdict_only) + "}\n";
        std::fwrite(out.data(), 1, out.size(), answers);
        std::fflush(answers);  // a pipe is buffered, so otherwise the harness waits forever
    }
    return 0;
}

}  // namespace stc
