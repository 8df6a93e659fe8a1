/* Answers requests with tommyip's libsafetensors: st_open, st_next_tensor, st_next_metadata. */
#define _GNU_SOURCE
#include "safetensors.h"
#include "stc_shim.h"

static const char *const codes[] = {"BOOL", "U8",  "I8",  "F8_E5M2", "F8_E4M3", "I16", "U16", "F16",
                                    "BF16", "I32", "U32", "F32",     "F64",     "I64", "U64"};

static void read_file(const char *path, int with_data, stc_answer *answer) {
    st_ctx *held = st_open(path);
    if (!held) return stc_reject(answer, "st_open says NULL");
    stc_reports_metadata(answer);
    for (st_tensor *t; (t = st_next_tensor(held));) {
        /* Report a range outside the file without its bytes. */
        int inside = t->data >= held->buf && t->data <= held->buf + held->buf_len &&
                     t->data_len <= (size_t)(held->buf + held->buf_len - t->data);
        stc_tensor(answer, t->name.string, t->name.len, codes[t->dtype], t->shape, t->shape_len,
                   with_data && inside ? t->data : NULL, t->data_len);
    }
    for (st_metadata *m; (m = st_next_metadata(held));)
        stc_metadata(answer, m->name.string, m->name.len, m->value.string, m->value.len);
    st_close(held);
}

int main(void) {
    /* The library's header file names every dtype that it supports. */
    static const char *const lacks[] = {"dtype-c64",         "dtype-f4",          "dtype-f6-e2m3", "dtype-f6-e3m2",
                                        "dtype-f8-e4m3fnuz", "dtype-f8-e5m2fnuz", "dtype-f8-e8m0", NULL};
    stc_program program = {"libsafetensors", "", "C", lacks, read_file};
    return stc_serve(&program);
}
