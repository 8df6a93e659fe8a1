// An example of stc_shim.hpp with a minimal reader, which searches the header
// for known text. Your reader parses the JSON instead.
//
//     g++ -std=c++17 -O2 -o example example.cpp && stc check-protocol --impl "cmd:./example"
#include "stc_shim.hpp"

#include <fstream>
#include <iterator>
#include <regex>

static std::vector<uint64_t> numbers(const std::string &text) {
    static const std::regex digits("[0-9]+");
    std::vector<uint64_t> out;
    for (std::sregex_iterator at(text.begin(), text.end(), digits), end; at != end; ++at) out.push_back(std::stoull(at->str()));
    return out;
}

static std::string field(const std::string &entry, const std::regex &wanted) {
    std::smatch found;
    if (!std::regex_search(entry, found, wanted)) throw std::runtime_error("a field is missing in " + entry);
    return found[1];
}

static void read_file(const std::string &path, bool with_data, stc::Answer &answer) {
    std::ifstream file(path, std::ios::binary);
    if (!file) throw std::runtime_error("cannot be opened");
    const std::string bytes{std::istreambuf_iterator<char>(file), {}};
    uint64_t length = 0;
    if (bytes.size() < 8) throw std::runtime_error("no length prefix");
    std::memcpy(&length, bytes.data(), 8);  // on a little-endian machine
    if (length > bytes.size() - 8) throw std::runtime_error("the header leaves the file");
    const std::string header = bytes.substr(8, length), data = bytes.substr(8 + length);
    if (header.empty() || header[0] != '{') throw std::runtime_error("no header");

    static const std::regex entries("\"([^\"]*)\"\\s*:\\s*\\{([^}]*)\\}"), pairs("\"([^\"]*)\"\\s*:\\s*\"([^\"]*)\"");
    static const std::regex dtype("\"dtype\"\\s*:\\s*\"([^\"]*)\""), shape("\"shape\"\\s*:\\s*\\[([^\\]]*)\\]"),
        offsets("\"data_offsets\"\\s*:\\s*\\[([^\\]]*)\\]");
    answer.no_metadata();
    for (std::sregex_iterator at(header.begin(), header.end(), entries), end; at != end; ++at) {
        const std::string name = (*at)[1], entry = (*at)[2];
        if (name == "__metadata__") {
            for (std::sregex_iterator pair(entry.begin(), entry.end(), pairs); pair != end; ++pair)
                answer.metadata((*pair)[1].str(), (*pair)[2].str());
            continue;
        }
        const auto range = numbers(field(entry, offsets));
        if (range.size() != 2 || range[0] > range[1] || range[1] > data.size()) throw std::runtime_error("a range leaves the file");
        const std::string code = field(entry, dtype);
        if (code.size() > 12) throw stc::Unsupported(code);
        answer.tensor(name, code, numbers(field(entry, shape)), with_data ? data.data() + range[0] : nullptr, range[1] - range[0]);
    }
}

int main() { return stc::serve({"example", "1.0", "C++", {"dtype-f4"}}, read_file); }
