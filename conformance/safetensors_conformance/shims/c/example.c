/* Use of stc_shim.h with a minimal reader: it searches the header for
 * what it knows, where yours reads JSON.
 *
 *     gcc -O2 -o example example.c && stc check-protocol --impl "cmd:./example"
 */
#define _GNU_SOURCE
#include "stc_shim.h"

/* Reads up to 16 numbers before a bracket, and returns how many there are. */
static size_t numbers(const char *at, uint64_t *out) {
    size_t count = 0;
    for (char *next; *at != ']' && count < 16; at = next + (*next == ',')) {
        out[count++] = strtoull(at, &next, 10);
        if (next == at) break;
    }
    return count;
}

static void read_tensors(char *header, const char *data, size_t size, int with_data, stc_answer *answer) {
    for (char *at = header + 1; (at = strchr(at, '"'));) {
        char *name = at + 1, *end = strchr(name, '"'), *close = end ? strchr(end, '}') : NULL;
        if (!close) return stc_reject(answer, "an entry does not end");
        *end = *close = 0;
        at = close + 1;
        if (!strcmp(name, "__metadata__")) {
            for (char *key = strchr(end + 1, '"'); key; key = strchr(key, '"')) {
                char *parts[4] = {key + 1};
                for (int i = 1; i < 4; i++)
                    if (!(parts[i] = strchr(parts[i - 1], '"'))) return stc_reject(answer, "metadata is no map of texts");
                    else *parts[i]++ = 0;
                stc_metadata(answer, parts[0], strlen(parts[0]), parts[2], strlen(parts[2]));
                key = parts[3];
            }
            continue;
        }
        uint64_t shape[16], range[16];
        char *dtype = strstr(end + 1, "\"dtype\":\""), *dims = strstr(end + 1, "\"shape\":["),
             *ends = strstr(end + 1, "\"data_offsets\":[");
        if (!dtype || !dims || !ends || numbers(ends + 16, range) != 2) return stc_reject(answer, "a field is missing");
        if (range[0] > range[1] || range[1] > size) return stc_reject(answer, "a range leaves the file");
        size_t rank = numbers(dims + 9, shape);
        strtok(dtype += 9, "\"");
        if (strlen(dtype) > 12) return stc_unsupported(answer, dtype);
        stc_tensor(answer, name, strlen(name), dtype, shape, rank, with_data ? data + range[0] : NULL, range[1] - range[0]);
    }
}

static void read_file(const char *path, int with_data, stc_answer *answer) {
    static char bytes[1 << 20];
    uint64_t length = 0;
    FILE *file = fopen(path, "rb");
    if (!file) return stc_reject(answer, "cannot be opened");
    size_t size = fread(bytes, 1, sizeof bytes, file);
    fclose(file);
    for (int i = 8; i--;) length = length << 8 | (unsigned char)bytes[i];
    if (size < 8 || length < 2 || length > size - 8) return stc_reject(answer, "the header leaves the file");
    char *header = (char *)calloc(length + 1, 1);
    memcpy(header, bytes + 8, length);
    stc_reports_metadata(answer);
    if (*header != '{') stc_reject(answer, "no header");
    else read_tensors(header, bytes + 8 + length, size - 8 - length, with_data, answer);
    free(header);
}

int main(void) {
    static const char *const lacks[] = {"dtype-f4", NULL};
    stc_program program = {"example", "1.0", "C", lacks, read_file};
    return stc_serve(&program);
}
