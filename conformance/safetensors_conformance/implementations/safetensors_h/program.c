/* Answers requests with hsnyder's safetensors.h: safetensors_file_init. */
#define _GNU_SOURCE
#define SAFETENSORS_IMPLEMENTATION
#include "safetensors.h"
#include "stc_shim.h"

static const char *const codes[SAFETENSORS_NUM_DTYPES] = {"F64", "F32", "F16", "BF16", "I64", "I32", "I16", "I8", "U8", "BOOL"};

static void read_file(const char *path, int with_data, stc_answer *answer) {
    FILE *file = fopen(path, "rb");
    if (!file || fseek(file, 0, SEEK_END)) return stc_reject(answer, "cannot be opened");
    long size = ftell(file);
    char *bytes = size < 0 ? NULL : malloc(size ? (size_t)size : 1);
    rewind(file);
    if (!bytes || fread(bytes, 1, (size_t)size, file) != (size_t)size) return stc_reject(answer, "cannot be read");
    fclose(file);
    safetensors_File held = {0};
    const char *refused = safetensors_file_init(bytes, size, &held);
    if (refused) return stc_reject(answer, refused);
    stc_reports_metadata(answer);
    for (int i = 0; i < held.num_tensors; i++) {
        safetensors_TensorDescriptor *t = &held.tensors[i];
        int64_t length = t->end_offset_bytes - t->begin_offset_bytes;
        /* Report a range outside the file without its bytes. */
        char *at = t->ptr;
        int inside = at >= bytes && at <= bytes + size && length >= 0 && length <= bytes + size - at;
        /* Do not report a dtype or rank that the library's header file does not define. */
        const char *code = t->dtype >= 0 && t->dtype < SAFETENSORS_NUM_DTYPES ? codes[t->dtype] : NULL;
        int ranked = t->n_dimensions >= 0 && t->n_dimensions <= SAFETENSORS_MAX_DIM;
        stc_tensor(answer, t->name.ptr, (size_t)t->name.len, code, ranked ? (uint64_t *)t->shape : NULL,
                   ranked ? (size_t)t->n_dimensions : 0, with_data && inside ? at : NULL, (uint64_t)length);
    }
    for (int i = 0; i < held.num_metadata; i++) {
        safetensors_MetadataEntry *m = &held.metadata[i];
        stc_metadata(answer, m->name.ptr, (size_t)m->name.len, m->value.ptr, (size_t)m->value.len);
    }
    free(held.tensors);
    free(held.metadata);
    free(bytes);
}

int main(void) {
    /* The library's header file names every dtype that it supports. */
    static const char *const lacks[] = {"dtype-c64",         "dtype-f4",      "dtype-f6-e2m3",     "dtype-f6-e3m2", "dtype-f8-e4m3",
                                        "dtype-f8-e4m3fnuz", "dtype-f8-e5m2", "dtype-f8-e5m2fnuz", "dtype-f8-e8m0", "dtype-u16",
                                        "dtype-u32",         "dtype-u64",     NULL};
    stc_program program = {"safetensors-h", "", "C", lacks, read_file};
    return stc_serve(&program);
}
