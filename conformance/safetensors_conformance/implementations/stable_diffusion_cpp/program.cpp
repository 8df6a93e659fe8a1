// Around read_safetensors_file of stable-diffusion.cpp, which keeps tensors in forms of its own: shapes turned round and
// folded, U8 left out, dtypes named by what they are converted to. So it is asked for its verdict alone.
#include "safetensors_io.h"
#include "stc_shim.hpp"

static void read_file(const std::string &path, bool, stc::Answer &) {
    std::vector<TensorStorage> tensors;
    std::string error;
    std::map<std::string, std::string> metadata;
    if (read_safetensors_file(path, tensors, &error, &metadata)) return;
    // What it says of dtypes that it does not know, and of more dimensions than it holds.
    if (error.rfind("unsupported dtype", 0) == 0) throw stc::Unsupported(error);
    throw std::runtime_error(error);
}

int main() {
    return stc::serve({"stable-diffusion.cpp", "97d2990807fe", "C++", {}, true}, read_file);
}
