/* Lets a safetensors reader in C take part in the conformance suite. Include this file once, next to main.
 *
 *     static void read_file(const char *path, int with_data, stc_answer *answer) {
 *         ...call the reader, then for each tensor:
 *         stc_tensor(answer, name, name_length, "F32", shape, rank, with_data ? data : NULL, size);
 *     }
 *
 *     int main(void) {
 *         static const char *const lacks[] = {"dtype-f4", NULL};
 *         stc_program program = {"my-reader", "1.0", "C", lacks, read_file};
 *         return stc_serve(&program);
 *     }
 *
 * Report what your reader reports, and do not parse anything yourself. The shim reads the requests one at a time,
 * computes digests and writes the answers. Output of the reader goes to standard error. The shim needs C99 and POSIX.
 */
#ifndef STC_SHIM_H
#define STC_SHIM_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct {
    char *bytes;
    size_t used, size;
} stc_text;

typedef struct {
    const char *outcome; /* "accept" by default */
    stc_text tensors, metadata, message;
    uint64_t count;
    int knows_metadata, summary, with_data;
} stc_answer;

typedef struct {
    const char *name, *version, *language;
    const char *const *lacks; /* NULL, or features that the reader lacks, such as "dtype-f4", ending with NULL */
    /* Reads a file, or only opens it if with_data is 0, and reports its content, or why it is rejected. */
    void (*read)(const char *path, int with_data, stc_answer *answer);
} stc_program;

/* ---- growing text buffer ---- */

static inline void stc_put(stc_text *text, const char *bytes, size_t count) {
    if (text->size - text->used < count + 1) {
        text->size = 2 * text->size + count + 256;
        text->bytes = (char *)realloc(text->bytes, text->size);
        if (!text->bytes) abort();
    }
    memcpy(text->bytes + text->used, bytes, count);
    text->used += count;
    text->bytes[text->used] = 0;
}

static inline void stc_say(stc_text *text, const char *words) { stc_put(text, words, strlen(words)); }

static inline void stc_number(stc_text *text, uint64_t number) {
    char digits[24];
    snprintf(digits, sizeof digits, "%llu", (unsigned long long)number);
    stc_say(text, digits);
}

/* Whether the bytes are UTF-8 as Unicode defines it: no overlong forms, no surrogates, nothing above U+10FFFF. */
static inline int stc_is_utf8(const unsigned char *at, size_t count) {
    const unsigned char *end = at + count;
    while (at < end) {
        unsigned lead = *at++, more = lead < 0x80 ? 0 : lead < 0xE0 ? 1 : lead < 0xF0 ? 2 : 3;
        unsigned low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
        unsigned high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
        if ((lead >= 0x80 && lead < 0xC2) || lead > 0xF4 || (size_t)(end - at) < more) return 0;
        for (; more; more--, low = 0x80, high = 0xBF)
            if (*at < low || *at++ > high) return 0;
    }
    return 1;
}

/* Adds a JSON string, or {"hex": ...} for bytes that are not UTF-8. */
static inline void stc_string(stc_text *text, const char *bytes, size_t count) {
    char code[8];
    int utf8 = stc_is_utf8((const unsigned char *)bytes, count);
    stc_say(text, utf8 ? "\"" : "{\"hex\": \"");
    for (size_t i = 0; i < count; i++) {
        unsigned char c = (unsigned char)bytes[i];
        if (utf8 && c >= 0x20 && c != '"' && c != '\\') {
            stc_put(text, bytes + i, 1);
            continue;
        }
        snprintf(code, sizeof code, utf8 ? "\\u%04x" : "%02x", c);
        stc_say(text, code);
    }
    stc_say(text, utf8 ? "\"" : "\"}");
}

/* ---- SHA-256, FIPS 180-4 ---- */

static inline uint32_t stc_rotated(uint32_t x, int by) { return x >> by | x << (32 - by); }

static inline void stc_sha_block(uint32_t state[8], const unsigned char *block) {
    static const uint32_t k[64] = {
        0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
        0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
        0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
        0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
        0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
        0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
        0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
        0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
    };
    uint32_t w[64], v[8];
    for (int i = 0; i < 16; i++)
        w[i] = (uint32_t)block[4 * i] << 24 | (uint32_t)block[4 * i + 1] << 16 | (uint32_t)block[4 * i + 2] << 8 |
               block[4 * i + 3];
    for (int i = 16; i < 64; i++) {
        uint32_t a = w[i - 15], b = w[i - 2];
        w[i] = w[i - 16] + w[i - 7] + (stc_rotated(a, 7) ^ stc_rotated(a, 18) ^ a >> 3) +
               (stc_rotated(b, 17) ^ stc_rotated(b, 19) ^ b >> 10);
    }
    memcpy(v, state, sizeof v);
    for (int i = 0; i < 64; i++) {
        uint32_t a = v[0], e = v[4];
        uint32_t one = v[7] + (stc_rotated(e, 6) ^ stc_rotated(e, 11) ^ stc_rotated(e, 25)) +
                       ((e & v[5]) ^ (~e & v[6])) + k[i] + w[i];
        uint32_t two = (stc_rotated(a, 2) ^ stc_rotated(a, 13) ^ stc_rotated(a, 22)) +
                       ((a & v[1]) ^ (a & v[2]) ^ (v[1] & v[2]));
        memmove(v + 1, v, 7 * sizeof *v);
        v[4] += one;
        v[0] = one + two;
    }
    for (int i = 0; i < 8; i++) state[i] += v[i];
}

static inline void stc_digest(stc_text *text, const unsigned char *bytes, size_t count) {
    uint32_t state[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    unsigned char last[128] = {0};
    char digits[9];
    size_t rest = count % 64, size = rest < 56 ? 64 : 128;
    for (size_t at = 0; at + 64 <= count; at += 64) stc_sha_block(state, bytes + at);
    if (rest) memcpy(last, bytes + count - rest, rest);
    last[rest] = 0x80;
    for (int i = 0; i < 8; i++) last[size - 1 - i] = (unsigned char)((uint64_t)count * 8 >> 8 * i);
    for (size_t at = 0; at < size; at += 64) stc_sha_block(state, last + at);
    for (int i = 0; i < 8; i++) {
        snprintf(digits, sizeof digits, "%08x", (unsigned)state[i]);
        stc_say(text, digits);
    }
}

/* ---- the answer for a file ---- */

/* Reports a tensor. A null dtype, or a null shape with a rank, means that the reader does not report it. The bytes
 * must be in the order of the file. They are NULL if the file is only opened, and may be NULL if there are none. */
static inline void stc_tensor(stc_answer *answer, const char *name, size_t name_length, const char *dtype,
                       const uint64_t *shape, size_t rank, const void *bytes, size_t count) {
    stc_text *out = &answer->tensors;
    if (answer->count++) stc_say(out, ", ");
    if (answer->summary) return;
    stc_say(out, "{\"name\": ");
    stc_string(out, name, name_length);
    if (dtype) {
        stc_say(out, ", \"dtype\": ");
        stc_string(out, dtype, strlen(dtype));
    }
    if (shape || !rank) {
        stc_say(out, ", \"shape\": [");
        for (size_t i = 0; i < rank; i++) {
            if (i) stc_say(out, ", ");
            stc_number(out, shape[i]);
        }
        stc_say(out, "]");
    }
    if (bytes || (!count && answer->with_data)) {
        stc_say(out, ", \"nbytes\": ");
        stc_number(out, count);
        stc_say(out, ", \"sha256\": \"");
        stc_digest(out, (const unsigned char *)bytes, count);
        stc_say(out, "\"");
    }
    stc_say(out, "}");
}

/* Declares that the reader reports metadata. Call this once, even if the file has no metadata. */
static inline void stc_reports_metadata(stc_answer *answer) { answer->knows_metadata = 1; }

static inline void stc_metadata(stc_answer *answer, const char *key, size_t key_length, const char *value, size_t length) {
    stc_text *out = &answer->metadata;
    answer->knows_metadata = 1;
    stc_say(out, out->used ? ", [" : "[");
    stc_string(out, key, key_length);
    stc_say(out, ", ");
    stc_string(out, value, length);
    stc_say(out, "]");
}

/* Reports an empty metadata map, if the reader distinguishes it from missing metadata. */
static inline void stc_empty_metadata(stc_answer *answer) { answer->knows_metadata = 2; }

static inline void stc_reject(stc_answer *answer, const char *why) {
    answer->outcome = "reject";
    answer->message.used = 0;
    stc_say(&answer->message, why);
}

/* Reports that the file is valid but not supported by the reader. */
static inline void stc_unsupported(stc_answer *answer, const char *why) {
    stc_reject(answer, why);
    answer->outcome = "unsupported";
}

/* ---- requests ---- */

/* Returns the value of a key in the object, or NULL. Requests from the harness are always well formed. */
static inline const char *stc_member(const char *at, const char *key) {
    size_t depth = 0, length = strlen(key);
    for (; *at; at++) {
        depth += (*at == '{' || *at == '[') - (size_t)(*at == '}' || *at == ']');
        if (*at != '"') continue;
        const char *begin = ++at;
        while (*at && *at != '"') at += *at == '\\' && at[1] ? 2 : 1;
        if (!*at) return NULL;
        if (depth != 1 || (size_t)(at - begin) != length || memcmp(begin, key, length)) continue;
        const char *value = at + 1 + strspn(at + 1, " ");
        if (*value == ':') return value + 1 + strspn(value + 1, " ");
    }
    return NULL;
}

static inline unsigned stc_hex4(const char *at) {
    char digits[5] = {at[0], at[1], at[2], at[3], 0};
    return (unsigned)strtoul(digits, NULL, 16);
}

/* Adds the text of a JSON string. */
static inline void stc_unescaped(stc_text *out, const char *at) {
    for (at++; *at && *at != '"'; at++) {
        if (*at != '\\') {
            stc_put(out, at, 1);
            continue;
        }
        static const char letters[] = "bfnrt", meant[] = "\b\f\n\r\t";
        const char *found = strchr(letters, *++at);
        if (*at != 'u') {
            stc_put(out, found ? meant + (found - letters) : at, 1);
            continue;
        }
        unsigned code = stc_hex4(at + 1);
        at += 4;
        if (code >= 0xD800 && code < 0xDC00) {
            code = 0x10000 + ((code - 0xD800) << 10) + (stc_hex4(at + 3) - 0xDC00);
            at += 6;
        }
        int more = code < 0x80 ? 0 : code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
        char byte = more ? (char)(0xFF00 >> (more + 1) | code >> 6 * more) : (char)code;
        stc_put(out, &byte, 1);
        while (more--) {
            byte = (char)(0x80 | (code >> 6 * more & 63));
            stc_put(out, &byte, 1);
        }
    }
}

static inline void stc_start(const stc_program *program, stc_text *out) {
    stc_say(out, "{\"protocol\": 1, \"steps\": [\"open\", \"read\"], \"implementation\": {\"name\": ");
    stc_string(out, program->name, strlen(program->name));
    stc_say(out, ", \"version\": ");
    stc_string(out, program->version, strlen(program->version));
    stc_say(out, ", \"language\": ");
    stc_string(out, program->language, strlen(program->language));
    stc_say(out, "}, \"lacks\": [");
    for (size_t i = 0; program->lacks && program->lacks[i]; i++) {
        if (i) stc_say(out, ", ");
        stc_string(out, program->lacks[i], strlen(program->lacks[i]));
    }
    stc_say(out, "]}\n");
}

static inline void stc_run(const stc_program *program, const char *request, stc_text *out) {
    stc_answer answer = {"accept", {0}, {0}, {0}, 0, 0, 0, 0};
    stc_text path = {0};
    const char *step = stc_member(request, "step"), *summary = stc_member(request, "summary");
    int reading = step && !strncmp(step, "\"read\"", 6);
    answer.summary = summary && *summary == 't';
    answer.with_data = reading;
    stc_say(out, "{\"seq\": ");
    stc_number(out, strtoull(stc_member(request, "seq"), NULL, 10));
    stc_say(out, ", \"outcome\": \"");
    if (reading || (step && !strncmp(step, "\"open\"", 6))) {
        stc_unescaped(&path, stc_member(request, "path"));
        program->read(path.bytes ? path.bytes : "", reading, &answer);
    } else {
        stc_unsupported(&answer, "the step is not known");
    }
    stc_say(out, answer.outcome);
    stc_say(out, "\"");
    if (strcmp(answer.outcome, "accept")) {
        stc_say(out, ", \"message\": ");
        stc_text *message = &answer.message; /* a message must be text, whatever the file contains */
        for (size_t i = 0; i < message->used; i++)
            if (message->bytes[i] & 0x80 && !stc_is_utf8((unsigned char *)message->bytes, message->used))
                message->bytes[i] = '?';
        stc_string(out, message->used ? message->bytes : "", message->used);
    } else if (answer.summary) {
        stc_say(out, ", \"tensor_count\": ");
        stc_number(out, answer.count);
    } else {
        stc_say(out, ", \"tensors\": [");
        stc_put(out, answer.tensors.used ? answer.tensors.bytes : "", answer.tensors.used);
        stc_say(out, "]");
        if (answer.metadata.used || answer.knows_metadata == 2) {
            stc_say(out, ", \"metadata_items\": [");
            stc_put(out, answer.metadata.used ? answer.metadata.bytes : "", answer.metadata.used);
            stc_say(out, "]");
        } else if (answer.knows_metadata) {
            stc_say(out, ", \"metadata\": null");
        }
    }
    stc_say(out, "}\n");
    free(answer.tensors.bytes);
    free(answer.metadata.bytes);
    free(answer.message.bytes);
    free(path.bytes);
}

/* Answers requests until there are no more. Returns the exit status of the program. */
static inline int stc_serve(const stc_program *program) {
    char *line = NULL;
    size_t room = 0;
    /* Output of the reader must not mix with answers. */
    FILE *answers = fdopen(dup(1), "w");
    if (!answers || dup2(2, 1) < 0) return 2;
    while (getline(&line, &room, stdin) >= 0) {
        const char *command = stc_member(line, "cmd");
        stc_text out = {0};
        if (!command || !strncmp(command, "\"stop\"", 6)) break;
        if (!strncmp(command, "\"start\"", 7)) stc_start(program, &out);
        else stc_run(program, line, &out);
        fwrite(out.bytes, 1, out.used, answers);
        fflush(answers); /* a pipe is buffered, so otherwise the harness waits forever */
        free(out.bytes);
    }
    free(line);
    return 0;
}

#endif
