// Answers requests with syoyo's safetensors-cpp. It calls load_from_file (or mmap_from_file if the first argument is
// "mmap") and then validate_data_offsets, as in the README.
#define SAFETENSORS_CPP_IMPLEMENTATION
#include "safetensors.hh"
#include "stc_shim.hpp"

static bool by_map = false;

static const char *code(safetensors::dtype dtype) {
    using D = safetensors::dtype;
    switch (dtype) {
        case D::kBOOL: return "BOOL";
        case D::kUINT8: return "U8";
        case D::kINT8: return "I8";
        case D::kINT16: return "I16";
        case D::kUINT16: return "U16";
        case D::kFLOAT16: return "F16";
        case D::kBFLOAT16: return "BF16";
        case D::kINT32: return "I32";
        case D::kUINT32: return "U32";
        case D::kFLOAT32: return "F32";
        case D::kFLOAT64: return "F64";
        case D::kINT64: return "I64";
        case D::kUINT64: return "U64";
    }
    return "?";
}

static void read_file(const std::string &path, bool with_data, stc::Answer &answer) {
    safetensors::safetensors_t held;
    std::string warn, err;
    bool good = by_map ? safetensors::mmap_from_file(path, &held, &warn, &err)
                       : safetensors::load_from_file(path, &held, &warn, &err);
    if (!good || !safetensors::validate_data_offsets(held, err)) throw std::runtime_error(err);
    const uint8_t *base = held.mmaped ? held.databuffer_addr : held.storage.data();
    const size_t size = held.mmaped ? held.databuffer_size : held.storage.size();
    static const uint8_t nothing = 0;
    for (const std::string &name : held.tensors.keys()) {
        safetensors::tensor_t t;
        held.tensors.at(name, &t);
        const size_t begin = t.data_offsets[0], end = t.data_offsets[1];
        // Report a range outside the file without its bytes.
        const bool inside = begin <= end && end <= size;
        const uint8_t *at = base ? base + begin : &nothing;
        answer.tensor(name, code(t.dtype), t.shape, with_data && inside ? at : nullptr, end - begin);
    }
    answer.no_metadata();
    for (const std::string &key : held.metadata.keys()) {
        std::string value;
        held.metadata.at(key, &value);
        answer.metadata(key, value);
    }
}

int main(int count, char **words) {
    by_map = count > 1 && std::string(words[1]) == "mmap";
    return stc::serve({"safetensors-cpp", {}, "C++",
                       {"dtype-c64", "dtype-f4", "dtype-f6-e2m3", "dtype-f6-e3m2", "dtype-f8-e4m3", "dtype-f8-e4m3fnuz",
                        "dtype-f8-e5m2", "dtype-f8-e5m2fnuz", "dtype-f8-e8m0"}},
                      read_file);
}
