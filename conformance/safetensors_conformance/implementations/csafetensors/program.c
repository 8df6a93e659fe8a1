/* Answers requests with syoyo's csafetensors: csafetensors_load_from_file and csafetensors_validate. */
#define _GNU_SOURCE
#include "csafetensors.h"
#include "stc_shim.h"

static void read_file(const char *path, int with_data, stc_answer *answer) {
    csafetensors_t held;
    csafetensors_init(&held);
    if (csafetensors_load_from_file(path, &held) != CSAFETENSORS_SUCCESS || !csafetensors_validate(&held)) {
        stc_reject(answer, csafetensors_get_error(&held));
        return csafetensors_free(&held);
    }
    stc_reports_metadata(answer);
    for (size_t i = 0; i < held.n_tensors; i++) {
        const csafetensors_tensor_t *t = csafetensors_get_tensor_by_index(&held, i);
        uint64_t shape[CSAFETENSORS_MAX_DIM];
        for (size_t k = 0; k < t->n_dims; k++) shape[k] = t->shape[k];
        /* Report a range outside the file without its bytes. */
        int inside = t->data_offset_begin <= t->data_offset_end && t->data_offset_end <= held.storage_size;
        stc_tensor(answer, t->name, strlen(t->name), csafetensors_dtype_name(t->dtype), shape, t->n_dims,
                   with_data && inside ? csafetensors_get_tensor_data(&held, t) : NULL, t->data_offset_end - t->data_offset_begin);
    }
    for (size_t i = 0; i < held.n_metadata; i++) {
        const csafetensors_metadata_t *m = &held.metadata[i];
        stc_metadata(answer, m->key, strlen(m->key), m->value, strlen(m->value));
    }
    csafetensors_free(&held);
}

int main(void) {
    /* The library's header file names every dtype that it supports. */
    static const char *const lacks[] = {"dtype-c64",     "dtype-f4",          "dtype-f6-e2m3", "dtype-f6-e3m2",     "dtype-f8-e4m3",
                                        "dtype-f8-e4m3fnuz", "dtype-f8-e5m2", "dtype-f8-e5m2fnuz", "dtype-f8-e8m0", NULL};
    stc_program program = {"csafetensors", "", "C", lacks, read_file};
    return stc_serve(&program);
}
