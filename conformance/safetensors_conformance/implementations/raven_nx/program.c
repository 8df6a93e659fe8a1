/* Speaks the protocol for program.ml, which calls the reader. */
#include "stc_shim.h"

#include <caml/alloc.h>
#include <caml/callback.h>
#include <caml/memory.h>
#include <caml/mlvalues.h>
#include <caml/printexc.h>

static void read_file(const char *path, int with_data, stc_answer *answer) {
    CAMLparam0();
    CAMLlocal4(told, rows, row, pairs);
    told = caml_callback_exn(*caml_named_value("read"), caml_copy_string(path));
    if (Is_exception_result(told)) {
        told = Extract_exception(told);
        char *why = caml_format_exception(told);
        stc_reject(answer, why);
        caml_stat_free(why);
        CAMLreturn0;
    }
    if (Tag_val(told) == 1) { /* Error */
        stc_reject(answer, String_val(Field(told, 0)));
        CAMLreturn0;
    }
    told = Field(told, 0);
    rows = Field(told, 0);
    for (mlsize_t i = 0; i < Wosize_val(rows); i++) {
        row = Field(rows, i);
        uint64_t shape[256];
        mlsize_t rank = Wosize_val(Field(row, 2));
        for (mlsize_t k = 0; k < rank && k < 256; k++) shape[k] = (uint64_t)Long_val(Field(Field(row, 2), k));
        stc_tensor(answer, String_val(Field(row, 0)), caml_string_length(Field(row, 0)), String_val(Field(row, 1)),
                   rank > 256 ? NULL : shape, rank, with_data ? String_val(Field(row, 3)) : NULL,
                   caml_string_length(Field(row, 3)));
    }
    stc_reports_metadata(answer);
    if (Is_block(Field(told, 1))) { /* Some */
        pairs = Field(Field(told, 1), 0);
        if (!Wosize_val(pairs)) stc_empty_metadata(answer);
        for (mlsize_t i = 0; i < Wosize_val(pairs); i++) {
            row = Field(pairs, i);
            stc_metadata(answer, String_val(Field(row, 0)), caml_string_length(Field(row, 0)), String_val(Field(row, 1)),
                         caml_string_length(Field(row, 1)));
        }
    }
    CAMLreturn0;
}

int main(int count, char **words) {
    (void)count;
    caml_startup(words);
    /* The library's list of dtypes shows which ones it supports. */
    static const char *const lacks[] = {"dtype-c64", "dtype-f8-e4m3fnuz", "dtype-f8-e5m2fnuz", NULL};
    stc_program program = {"raven-nx", "", "OCaml", lacks, read_file};
    return stc_serve(&program);
}
