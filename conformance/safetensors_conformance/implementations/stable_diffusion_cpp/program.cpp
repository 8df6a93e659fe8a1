// Answers requests with read_safetensors_file of stable-diffusion.cpp. The library stores tensors in its own form: it
// reverses and folds shapes, leaves out U8, and names dtypes after the types to which it converts them. Therefore,
// only its verdict is used.
#include "safetensors_io.h"
#include "stc_shim.hpp"

static void read_file(const std::string &path, bool, stc::Answer &) {
    std::vector<TensorStorage> tensors;
    std::string error;
    std::map<std::string, std::string> metadata;
    if (read_safetensors_file(path, tensors, &error, &metadata)) return;
    // This error is about unknown dtypes, or about more dimensions than the library supports.
    if (error.rfind("unsupported dtype", 0) == 0) throw stc::Unsupported(error);
    throw std::runtime_error(error);
}

int main() {
    return stc::serve({"stable-diffusion.cpp", "97d2990807fe", "C++", {}, true}, read_file);
}
