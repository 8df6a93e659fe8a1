/* A strict reader in C that needs no library. It speaks the worker protocol. If it is called with a file, it
 * answers with its exit status instead (0 valid, 1 rejected).
 *
 *     gcc -O2 -o stdio_reader docs/examples/stdio_reader.c
 *     pytest conformance --impl="cmd:./stdio_reader"
 *     pytest conformance --impl="exit:./stdio_reader {path}"
 */
#define _FILE_OFFSET_BITS 64
#define _POSIX_C_SOURCE 200809L
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEPTH = 128, HEADER_CAP = 100000000 };

/* ---- memory for one request, and the exit for an invalid file ---- */

static jmp_buf refused;
static const char *reason;

static void demand(int condition, const char *what) {
    if (!condition) {
        reason = what;
        longjmp(refused, 1);
    }
}

typedef struct Chunk {
    struct Chunk *before;
    size_t used, size;
    _Alignas(16) char bytes[];
} Chunk;
static Chunk *chunks;

static void *take(size_t size) {
    size = (size + 15) & ~(size_t)15;
    if (!chunks || chunks->size - chunks->used < size) {
        size_t room = size > 1 << 16 ? size : 1 << 16;
        Chunk *chunk = malloc(sizeof *chunk + room);
        if (!chunk) {
            fputs("out of memory\n", stderr);
            abort();
        }
        *chunk = (Chunk){chunks, 0, room};
        chunks = chunk;
    }
    void *at = chunks->bytes + chunks->used;
    chunks->used += size;
    return at;
}

static void give_back_all(void) {
    while (chunks) {
        Chunk *before = chunks->before;
        free(chunks);
        chunks = before;
    }
}

/* ---- strict JSON: UTF-8, no duplicate keys, no lone surrogates ---- */

typedef struct Value {
    char kind;        /* { [ " 0 (a number) t f n */
    const char *text; /* an unescaped string, or a number */
    size_t length;    /* length of the text */
    struct Value *key, *first, *next;
    size_t count;
} Value;

typedef struct {
    const unsigned char *at, *end;
} Input;

static int peek(Input *in) { return in->at < in->end ? *in->at : -1; }

static void spaces(Input *in) {
    for (int c; (c = peek(in)) == ' ' || c == '\t' || c == '\n' || c == '\r';) in->at++;
}

static void expect(Input *in, int wanted) {
    demand(peek(in) == wanted, "no JSON: another character was expected");
    in->at++;
}

static unsigned hex4(Input *in) {
    unsigned code = 0;
    for (int i = 0; i < 4; i++) {
        int c = peek(in);
        int digit = c >= '0' && c <= '9' ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10 : -1;
        demand(digit >= 0, "no JSON: \\u without four digits");
        code = code << 4 | (unsigned)digit;
        in->at++;
    }
    return code;
}

static char *put_utf8(char *out, unsigned code) {
    if (code < 0x80) {
        *out++ = (char)code;
        return out;
    }
    int more = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
    *out++ = (char)(0xFF00 >> (more + 1) | code >> 6 * more);
    while (more--) *out++ = (char)(0x80 | (code >> 6 * more & 63));
    return out;
}

static char *escape(Input *in, char *out) {
    static const char letters[] = "\"\\/bfnrt", meant[] = "\"\\/\b\f\n\r\t";
    int c = peek(in);
    demand(c > 0, "no JSON: unfinished escape");
    in->at++;
    if (c != 'u') {
        const char *found = strchr(letters, c);
        demand(found != NULL, "no JSON: unknown escape");
        *out++ = meant[found - letters];
        return out;
    }
    unsigned code = hex4(in);
    if (code >= 0xD800 && code < 0xDC00) {
        expect(in, '\\');
        expect(in, 'u');
        unsigned low = hex4(in);
        demand(low >= 0xDC00 && low < 0xE000, "half of a surrogate pair");
        code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
    }
    demand(code < 0xD800 || code >= 0xE000, "half of a surrogate pair");
    return put_utf8(out, code);
}

static Value *string(Input *in) {
    expect(in, '"');
    const unsigned char *stop = in->at; /* the unescaped text is never longer than the escaped one */
    while (stop < in->end && *stop != '"') stop += *stop == '\\' ? 2 : 1;
    demand(stop < in->end, "no JSON: unfinished string");
    char *begin = take((size_t)(stop - in->at) + 1), *out = begin;
    for (int c; (c = peek(in)) != '"';) {
        demand(c >= 0x20, "no JSON: control character in a string");
        in->at++;
        if (c == '\\') out = escape(in, out);
        else *out++ = (char)c;
    }
    in->at++;
    Value *value = take(sizeof *value);
    *value = (Value){.kind = '"', .text = begin, .length = (size_t)(out - begin)};
    return value;
}

static int digits(Input *in) {
    int count = 0;
    for (; peek(in) >= '0' && peek(in) <= '9'; in->at++) count = 1;
    return count;
}

static Value *number(Input *in) {
    const unsigned char *begin = in->at;
    if (peek(in) == '-') in->at++;
    if (peek(in) == '0') in->at++;
    else demand(digits(in), "no JSON: no value");
    if (peek(in) == '.') {
        in->at++;
        demand(digits(in), "no JSON: no digit behind the point");
    }
    if (peek(in) == 'e' || peek(in) == 'E') {
        in->at++;
        if (peek(in) == '+' || peek(in) == '-') in->at++;
        demand(digits(in), "no JSON: no digit in the exponent");
    }
    Value *value = take(sizeof *value);
    *value = (Value){.kind = '0', .text = (const char *)begin, .length = (size_t)(in->at - begin)};
    return value;
}

static int by_key(const void *a, const void *b) {
    const Value *x = (*(Value *const *)a)->key, *y = (*(Value *const *)b)->key;
    int order = memcmp(x->text, y->text, x->length < y->length ? x->length : y->length);
    return order ? order : (x->length > y->length) - (x->length < y->length);
}

static void demand_no_key_twice(const Value *object) {
    if (object->count < 2) return;
    Value **sorted = take(object->count * sizeof *sorted);
    size_t n = 0;
    for (Value *item = object->first; item; item = item->next) sorted[n++] = item;
    qsort(sorted, n, sizeof *sorted, by_key);
    for (size_t i = 1; i < n; i++) demand(by_key(&sorted[i - 1], &sorted[i]) != 0, "a key stands twice");
}

static Value *value(Input *in, int depth);

static Value *container(Input *in, int depth) {
    demand(depth < DEPTH, "nested too deep");
    Value *self = take(sizeof *self), **last = &self->first;
    *self = (Value){.kind = (char)*in->at++};
    int end = self->kind == '{' ? '}' : ']';
    for (spaces(in); peek(in) != end; self->count++) {
        if (self->count) {
            expect(in, ',');
            spaces(in);
        }
        Value *key = NULL;
        if (end == '}') {
            key = string(in);
            spaces(in);
            expect(in, ':');
            spaces(in);
        }
        *last = value(in, depth + 1);
        (*last)->key = key;
        last = &(*last)->next;
        spaces(in);
    }
    in->at++;
    if (end == '}') demand_no_key_twice(self);
    return self;
}

static Value *value(Input *in, int depth) {
    static const char *const words[] = {"true", "false", "null"};
    int c = peek(in);
    if (c == '{' || c == '[') return container(in, depth);
    if (c == '"') return string(in);
    for (int i = 0; i < 3; i++) {
        size_t length = strlen(words[i]);
        if ((size_t)(in->end - in->at) >= length && !memcmp(in->at, words[i], length)) {
            Value *word = take(sizeof *word);
            *word = (Value){.kind = *words[i]};
            in->at += length;
            return word;
        }
    }
    return number(in);
}

static Value *get(const Value *object, const char *key) {
    for (Value *item = object->first; item; item = item->next)
        if (item->key->length == strlen(key) && !memcmp(item->key->text, key, item->key->length)) return item;
    return NULL;
}

static int is_kind(const Value *value, char kind) { return value && value->kind == kind; }

static void demand_utf8(const unsigned char *at, const unsigned char *end) {
    static const unsigned least[] = {0, 0x80, 0x800, 0x10000};
    while (at < end) {
        unsigned lead = *at++;
        if (lead < 0x80) continue;
        int more = lead >= 0xF0 ? 3 : lead >= 0xE0 ? 2 : 1;
        demand(lead >= 0xC2 && lead < 0xF5 && end - at >= more, "no UTF-8");
        unsigned code = lead & (0x3Fu >> more);
        for (int i = 0; i < more; i++, at++) {
            demand((*at & 0xC0) == 0x80, "no UTF-8");
            code = code << 6 | (*at & 63);
        }
        demand(code >= least[more] && code < 0x110000 && (code < 0xD800 || code >= 0xE000), "no UTF-8");
    }
}

/* ---- safetensors ---- */

typedef struct {
    const Value *entry;
    const char *dtype;
    Value *shape;
    uint64_t begin, end;
} Tensor;

typedef struct {
    Tensor *tensors;
    size_t count;
    const Value *metadata;
    uint64_t data; /* where the data buffer begins in the file */
} Header;

static const struct {
    const char *code;
    unsigned bits;
} DTYPES[] = {
    {"BOOL", 8}, {"U8", 8}, {"I8", 8}, {"F8_E5M2", 8}, {"F8_E4M3", 8}, {"F8_E8M0", 8}, {"F8_E4M3FNUZ", 8},
    {"F8_E5M2FNUZ", 8}, {"I16", 16}, {"U16", 16}, {"F16", 16}, {"BF16", 16}, {"I32", 32}, {"U32", 32},
    {"F32", 32}, {"I64", 64}, {"U64", 64}, {"F64", 64}, {"C64", 64}, {"F4", 4}, {"F6_E2M3", 6}, {"F6_E3M2", 6},
};

static uint64_t size_of(const Value *value, const char *what) {
    demand(is_kind(value, '0'), what);
    uint64_t size = 0;
    for (size_t i = 0; i < value->length; i++) {
        unsigned digit = (unsigned)(value->text[i] - '0');
        demand(digit < 10, what);
        demand(!__builtin_mul_overflow(size, 10, &size) && !__builtin_add_overflow(size, digit, &size), what);
    }
    return size;
}

static Tensor tensor(const Value *entry) {
    demand(entry->kind == '{', "a tensor entry is no object");
    const Value *dtype = get(entry, "dtype"), *offsets = get(entry, "data_offsets");
    Tensor out = {entry, NULL, get(entry, "shape"), 0, 0};
    unsigned __int128 bits = 0;
    for (size_t i = 0; i < sizeof DTYPES / sizeof *DTYPES && is_kind(dtype, '"'); i++)
        if (strlen(DTYPES[i].code) == dtype->length && !memcmp(DTYPES[i].code, dtype->text, dtype->length)) {
            out.dtype = DTYPES[i].code;
            bits = DTYPES[i].bits;
        }
    demand(out.dtype != NULL, "unknown dtype");
    demand(is_kind(out.shape, '['), "shape is no array");
    for (Value *item = out.shape->first; item; item = item->next) {
        uint64_t size = size_of(item, "a dimension is no size");
        demand(!size || bits < ((unsigned __int128)1 << 67) / size, "size overflows");
        bits *= size;
    }
    demand(is_kind(offsets, '[') && offsets->count == 2, "no pair of offsets");
    out.begin = size_of(offsets->first, "an offset is no size");
    out.end = size_of(offsets->first->next, "an offset is no size");
    demand(out.begin <= out.end && bits % 8 == 0 && out.end - out.begin == bits / 8, "range and shape disagree");
    return out;
}

static int by_offset(const void *a, const void *b) {
    const Tensor *x = a, *y = b;
    if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
    return (x->end > y->end) - (x->end < y->end);
}

static Header open_file(FILE *file) {
    unsigned char prefix[8];
    uint64_t length = 0;
    demand(fseeko(file, 0, SEEK_END) == 0, "cannot be read");
    uint64_t size = (uint64_t)ftello(file);
    rewind(file);
    demand(fread(prefix, 1, 8, file) == 8, "no length prefix");
    for (int i = 8; i--;) length = length << 8 | prefix[i];
    demand(length <= HEADER_CAP, "header length above the cap");
    demand(length <= size - 8, "header past the end of the file");
    unsigned char *text = take(length + 1);
    demand(fread(text, 1, length, file) == length, "cannot be read");
    Input in = {text, text + length};
    demand_utf8(text, in.end);
    demand(peek(&in) == '{', "the header begins with no brace");
    const Value *header = value(&in, 0);
    while (peek(&in) == ' ') in.at++;
    demand(in.at == in.end, "something other than spaces behind the header");

    Header out = {take((header->count + 1) * sizeof(Tensor)), 0, get(header, "__metadata__"), 8 + length};
    if (out.metadata) {
        demand(out.metadata->kind == '{', "metadata is no object");
        for (Value *item = out.metadata->first; item; item = item->next)
            demand(item->kind == '"', "metadata value is no string");
    }
    for (const Value *entry = header->first; entry; entry = entry->next)
        if (entry != out.metadata) out.tensors[out.count++] = tensor(entry);
    qsort(out.tensors, out.count, sizeof(Tensor), by_offset);
    uint64_t position = 0;
    for (size_t i = 0; i < out.count; position = out.tensors[i++].end)
        demand(out.tensors[i].begin == position, "hole or overlap");
    demand(position == size - 8 - length, "data buffer of another length");
    return out;
}

/* ---- SHA-256 (FIPS 180-4) ---- */

typedef struct {
    uint32_t state[8];
    uint64_t length;
    unsigned char block[64];
} Sha;

static const uint32_t K[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5, 0xd807aa98,
    0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786,
    0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8,
    0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13,
    0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819,
    0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a,
    0x5b9cca4f, 0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7,
    0xc67178f2,
};

static uint32_t rotated(uint32_t x, int by) { return x >> by | x << (32 - by); }

static void sha_block(Sha *sha) {
    uint32_t w[64], v[8];
    for (int i = 0; i < 16; i++) {
        const unsigned char *b = sha->block + 4 * i;
        w[i] = (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
    }
    for (int i = 16; i < 64; i++) {
        uint32_t a = w[i - 15], b = w[i - 2];
        w[i] = w[i - 16] + w[i - 7] + (rotated(a, 7) ^ rotated(a, 18) ^ a >> 3) +
               (rotated(b, 17) ^ rotated(b, 19) ^ b >> 10);
    }
    memcpy(v, sha->state, sizeof v);
    for (int i = 0; i < 64; i++) {
        uint32_t a = v[0], e = v[4];
        uint32_t one = v[7] + (rotated(e, 6) ^ rotated(e, 11) ^ rotated(e, 25)) + ((e & v[5]) ^ (~e & v[6])) +
                       K[i] + w[i];
        uint32_t two = (rotated(a, 2) ^ rotated(a, 13) ^ rotated(a, 22)) +
                       ((a & v[1]) ^ (a & v[2]) ^ (v[1] & v[2]));
        memmove(v + 1, v, 7 * sizeof *v);
        v[4] += one;
        v[0] = one + two;
    }
    for (int i = 0; i < 8; i++) sha->state[i] += v[i];
}

static void sha_add(Sha *sha, const unsigned char *bytes, size_t count) {
    while (count) {
        size_t at = sha->length % 64, part = count < 64 - at ? count : 64 - at;
        memcpy(sha->block + at, bytes, part);
        sha->length += part;
        bytes += part;
        count -= part;
        if (sha->length % 64 == 0) sha_block(sha);
    }
}

static void put_digest(FILE *file, const Tensor *tensor, uint64_t data) {
    static unsigned char buffer[1 << 16];
    Sha sha = {{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19}, 0, {0}};
    fseeko(file, (off_t)(data + tensor->begin), SEEK_SET);
    for (uint64_t left = tensor->end - tensor->begin; left;) {
        size_t got = fread(buffer, 1, left < sizeof buffer ? left : sizeof buffer, file);
        if (!got) break; /* truncated while it was read; the digest shows this */
        sha_add(&sha, buffer, got);
        left -= got;
    }
    uint64_t bits = sha.length * 8;
    sha_add(&sha, (const unsigned char *)"\x80", 1);
    while (sha.length % 64 != 56) sha_add(&sha, (const unsigned char *)"", 1);
    for (int i = 8; i--;) {
        unsigned char byte = (unsigned char)(bits >> 8 * i);
        sha_add(&sha, &byte, 1);
    }
    for (int i = 0; i < 8; i++) printf("%08x", (unsigned)sha.state[i]);
}

/* ---- the protocol ---- */

static void put_text(const char *text, size_t length) {
    putchar('"');
    for (size_t i = 0; i < length; i++) {
        unsigned char c = (unsigned char)text[i];
        if (c < 0x20 || c == '"' || c == '\\') printf("\\u%04x", c);
        else putchar(c);
    }
    putchar('"');
}

static void put_string(const Value *string) { put_text(string->text, string->length); }

static void put_content(FILE *file, const Header *header, int with_data) {
    printf("\"tensors\": [");
    for (size_t i = 0; i < header->count; i++) {
        const Tensor *t = &header->tensors[i];
        printf("%s{\"name\": ", i ? ", " : "");
        put_string(t->entry->key);
        printf(", \"dtype\": \"%s\", \"shape\": [", t->dtype);
        for (Value *item = t->shape->first; item; item = item->next)
            printf("%.*s%s", (int)item->length, item->text, item->next ? ", " : "");
        putchar(']');
        if (with_data) {
            printf(", \"nbytes\": %llu, \"sha256\": \"", (unsigned long long)(t->end - t->begin));
            put_digest(file, t, header->data);
            putchar('"');
        }
        putchar('}');
    }
    printf("], \"metadata\": %s", header->metadata ? "{" : "null");
    if (!header->metadata) return;
    for (Value *item = header->metadata->first; item; item = item->next) {
        put_string(item->key);
        printf(": ");
        put_string(item);
        if (item->next) printf(", ");
    }
    putchar('}');
}

static void run(const Value *request) {
    const Value *seq = get(request, "seq"), *step = get(request, "step"), *path = get(request, "path");
    const Value *summary = get(request, "summary");
    printf("{\"seq\": %.*s, ", (int)seq->length, seq->text);
    int reading = step->length == 4 && !memcmp(step->text, "read", 4);
    if (!reading && !(step->length == 4 && !memcmp(step->text, "open", 4))) {
        printf("\"outcome\": \"unsupported\"}\n");
        return;
    }
    char *name = take(path->length + 1);
    memcpy(name, path->text, path->length);
    name[path->length] = 0;
    FILE *volatile file = NULL;
    if (setjmp(refused) == 0) {
        file = fopen(name, "rb");
        demand(file != NULL, "cannot be opened");
        Header header = open_file(file);
        printf("\"outcome\": \"accept\", "); /* after this line, the file can no longer be rejected */
        if (is_kind(summary, 't')) printf("\"tensor_count\": %zu", header.count);
        else put_content(file, &header, reading);
        printf("}\n");
    } else {
        printf("\"outcome\": \"reject\", \"message\": ");
        put_text(reason, strlen(reason));
        printf("}\n");
    }
    if (file) fclose(file);
}

static int is(const Value *text, const char *wanted) {
    return is_kind(text, '"') && text->length == strlen(wanted) && !memcmp(text->text, wanted, text->length);
}

static int check(const char *path) {
    FILE *volatile file = fopen(path, "rb");
    if (setjmp(refused)) {
        fprintf(stderr, "%s: %s\n", path, reason);
        return 1;
    }
    demand(file != NULL, "cannot be opened");
    open_file(file);
    return 0;
}

int main(int argc, char **argv) {
    if (argc == 2) return check(argv[1]);
    char *line = NULL;
    size_t room = 0;
    for (ssize_t length; (length = getline(&line, &room, stdin)) >= 0; give_back_all()) {
        if (setjmp(refused)) {
            fprintf(stderr, "the request is no JSON: %s\n", reason);
            return 2;
        }
        Input in = {(unsigned char *)line, (unsigned char *)line + length};
        const Value *request = value(&in, 0);
        demand(request->kind == '{', "no object");
        if (is(get(request, "cmd"), "stop")) break;
        if (is(get(request, "cmd"), "start"))
            puts("{\"protocol\": 1, \"steps\": [\"open\", \"read\"], "
                 "\"implementation\": {\"name\": \"C example\", \"version\": \"1.0\", \"language\": \"C\"}}");
        else run(request);
        fflush(stdout); /* a pipe is buffered, so without this the harness would wait forever */
    }
    return 0;
}
