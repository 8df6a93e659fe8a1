// A strict reader in Java that speaks the worker protocol. It needs only the JDK (17 or newer):
//     pytest conformance --impl="cmd:java docs/examples/StdioReader.java"
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.math.BigInteger;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.FileChannel;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.security.MessageDigest;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HexFormat;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

public final class StdioReader {
    static final int HEADER_CAP = 100_000_000;
    static final BigInteger SIZE_END = BigInteger.ONE.shiftLeft(64);
    static final BigInteger BITS_END = BigInteger.ONE.shiftLeft(67);
    static final Map<String, Integer> BITS = new LinkedHashMap<>();

    static {
        for (String code : "BOOL U8 I8 F8_E5M2 F8_E4M3 F8_E8M0 F8_E4M3FNUZ F8_E5M2FNUZ".split(" ")) BITS.put(code, 8);
        for (String code : "I16 U16 F16 BF16".split(" ")) BITS.put(code, 16);
        for (String code : "I32 U32 F32".split(" ")) BITS.put(code, 32);
        for (String code : "I64 U64 F64 C64".split(" ")) BITS.put(code, 64);
        BITS.putAll(Map.of("F4", 4, "F6_E2M3", 6, "F6_E3M2", 6));
    }

    static final class Refused extends Exception {
        Refused(String why) {
            super(why);
        }
    }

    record Tensor(String name, String dtype, List<?> shape, BigInteger begin, BigInteger end) {}

    record Header(List<Tensor> tensors, Object metadata, long data) {}

    /** A number as it is written in the text. */
    record Number(String text) {}

    static void demand(boolean condition, String what) throws Refused {
        if (!condition) throw new Refused(what);
    }

    /** Strict JSON: rejects duplicate keys and lone surrogates. Objects become Map, arrays List, and null NULL. */
    static final class Json {
        static final Object NULL = new Object();
        static final int DEPTH = 128;
        final String text;
        int at;

        Json(String text) {
            this.text = text;
        }

        int peek() {
            return at < text.length() ? text.charAt(at) : -1;
        }

        void spaces() {
            while (peek() == ' ' || peek() == '\t' || peek() == '\n' || peek() == '\r') at++;
        }

        void expect(char wanted) throws Refused {
            demand(peek() == wanted, "no JSON: another character was expected at " + at);
            at++;
        }

        Object value(int depth) throws Refused {
            switch (peek()) {
                case '{':
                    return object(depth);
                case '[':
                    return array(depth);
                case '"':
                    return string();
                default:
            }
            for (String word : new String[] {"true", "false", "null"}) {
                if (!text.startsWith(word, at)) continue;
                at += word.length();
                return word.equals("null") ? NULL : (Object) word.equals("true");
            }
            return number();
        }

        Map<String, Object> object(int depth) throws Refused {
            demand(depth < DEPTH, "nested too deep");
            Map<String, Object> map = new LinkedHashMap<>();
            at++;
            for (spaces(); peek() != '}'; spaces()) {
                if (!map.isEmpty()) expect(',');
                spaces();
                String key = string();
                demand(!map.containsKey(key), "a key stands twice");
                spaces();
                expect(':');
                spaces();
                map.put(key, value(depth + 1));
            }
            at++;
            return map;
        }

        List<Object> array(int depth) throws Refused {
            demand(depth < DEPTH, "nested too deep");
            List<Object> list = new ArrayList<>();
            at++;
            for (spaces(); peek() != ']'; spaces()) {
                if (!list.isEmpty()) expect(',');
                spaces();
                list.add(value(depth + 1));
            }
            at++;
            return list;
        }

        String string() throws Refused {
            expect('"');
            StringBuilder out = new StringBuilder();
            for (int c; (c = peek()) != '"'; ) {
                demand(c >= 0x20, "no JSON: control character or end in a string");
                at++;
                out.append(c == '\\' ? escaped() : (char) c);
            }
            at++;
            for (int i = 0; i < out.length(); i++) {
                if (!Character.isSurrogate(out.charAt(i))) continue;
                boolean pair = i + 1 < out.length() && Character.isSurrogatePair(out.charAt(i), out.charAt(i + 1));
                demand(pair, "half of a surrogate pair");
                i++;
            }
            return out.toString();
        }

        char escaped() throws Refused {
            int letter = "\"\\/bfnrt".indexOf(peek());
            if (letter >= 0) {
                at++;
                return "\"\\/\b\f\n\r\t".charAt(letter);
            }
            expect('u');
            int code = 0;
            for (int i = 0; i < 4; i++, at++) {
                int digit = peek() < 128 ? Character.digit(peek(), 16) : -1;
                demand(digit >= 0, "no JSON: \\u without four digits");
                code = code * 16 + digit;
            }
            return (char) code;
        }

        boolean digits() {
            int begin = at;
            while (peek() >= '0' && peek() <= '9') at++;
            return at > begin;
        }

        Number number() throws Refused {
            int begin = at;
            if (peek() == '-') at++;
            if (peek() == '0') at++;
            else demand(digits(), "no JSON: no value at " + begin);
            if (peek() == '.') {
                at++;
                demand(digits(), "no JSON: no digit behind the point");
            }
            if (peek() == 'e' || peek() == 'E') {
                at++;
                if (peek() == '+' || peek() == '-') at++;
                demand(digits(), "no JSON: no digit in the exponent");
            }
            return new Number(text.substring(begin, at));
        }

        static String write(Object value) {
            if (value instanceof Map<?, ?> map) {
                List<String> items = new ArrayList<>();
                map.forEach((key, item) -> items.add(write(key) + ": " + write(item)));
                return "{" + String.join(", ", items) + "}";
            }
            if (value instanceof List<?> list) return "[" + String.join(", ", list.stream().map(Json::write).toList()) + "]";
            if (!(value instanceof String text)) return value == NULL ? "null" : String.valueOf(value);
            StringBuilder out = new StringBuilder("\"");
            for (char c : text.toCharArray()) {
                if (c < 0x20 || c == '"' || c == '\\') out.append("\\u").append(HexFormat.of().toHexDigits(c));
                else out.append(c);
            }
            return out.append('"').toString();
        }
    }

    static BigInteger size(Object value, String what) throws Refused {
        demand(value instanceof Number n && n.text().matches("[0-9]{1,20}"), what);
        BigInteger size = new BigInteger(((Number) value).text());
        demand(size.compareTo(SIZE_END) < 0, what);
        return size;
    }

    static Tensor tensor(String name, Object given) throws Refused {
        demand(given instanceof Map, "a tensor entry is no object");
        Map<?, ?> entry = (Map<?, ?>) given;
        demand(entry.get("dtype") instanceof String code && BITS.containsKey(code), "unknown dtype");
        demand(entry.get("shape") instanceof List, "shape is no array");
        demand(entry.get("data_offsets") instanceof List<?> pair && pair.size() == 2, "no pair of offsets");
        String dtype = (String) entry.get("dtype");
        List<BigInteger> shape = new ArrayList<>();
        BigInteger bits = BigInteger.valueOf(BITS.get(dtype));
        for (Object item : (List<?>) entry.get("shape")) {
            shape.add(size(item, "a dimension is no size"));
            bits = bits.multiply(shape.get(shape.size() - 1));
            demand(bits.compareTo(BITS_END) < 0, "size overflows");
        }
        List<?> offsets = (List<?>) entry.get("data_offsets");
        BigInteger begin = size(offsets.get(0), "an offset is no size");
        BigInteger end = size(offsets.get(1), "an offset is no size");
        demand(end.subtract(begin).shiftLeft(3).equals(bits), "range and shape disagree");
        return new Tensor(name, dtype, shape, begin, end);
    }

    static ByteBuffer bytesAt(FileChannel file, long position, int length) throws IOException, Refused {
        ByteBuffer buffer = ByteBuffer.allocate(length).order(ByteOrder.LITTLE_ENDIAN);
        while (buffer.hasRemaining()) {
            demand(file.read(buffer, position + buffer.position()) > 0, "the file ends early");
        }
        return buffer.flip();
    }

    static Header header(FileChannel file) throws IOException, Refused {
        demand(file.size() >= 8, "no length prefix");
        long length = bytesAt(file, 0, 8).getLong();
        demand(length >= 0 && length <= HEADER_CAP, "header length above the cap");
        demand(length <= file.size() - 8, "header past the end of the file");
        Json json = new Json(StandardCharsets.UTF_8.newDecoder().decode(bytesAt(file, 8, (int) length)).toString());
        demand(json.peek() == '{', "the header begins with no brace");
        Map<String, Object> entries = json.object(0);
        while (json.peek() == ' ') json.at++;
        demand(json.peek() == -1, "something other than spaces behind the header");
        Object metadata = entries.remove("__metadata__");
        demand(metadata == null || metadata instanceof Map, "metadata is no object");
        if (metadata instanceof Map<?, ?> map) {
            for (Object item : map.values()) demand(item instanceof String, "metadata value is no string");
        }
        List<Tensor> tensors = new ArrayList<>();
        for (var entry : entries.entrySet()) tensors.add(tensor(entry.getKey(), entry.getValue()));
        List<Tensor> sorted = new ArrayList<>(tensors);
        sorted.sort(Comparator.comparing(Tensor::begin).thenComparing(Tensor::end));
        BigInteger position = BigInteger.ZERO;
        for (Tensor tensor : sorted) {
            demand(tensor.begin().equals(position), "hole or overlap");
            position = tensor.end();
        }
        demand(position.equals(BigInteger.valueOf(file.size() - 8 - length)), "data buffer of another length");
        return new Header(tensors, metadata == null ? Json.NULL : metadata, 8 + length);
    }

    static String digest(FileChannel file, long begin, long end) throws Exception {
        MessageDigest sha256 = MessageDigest.getInstance("SHA-256");
        for (long at = begin; at < end; at += 1 << 20) sha256.update(bytesAt(file, at, (int) Math.min(1 << 20, end - at)));
        return HexFormat.of().formatHex(sha256.digest());
    }

    static Map<String, Object> row(FileChannel file, Tensor tensor, long data, boolean reading) throws Exception {
        Map<String, Object> row = new LinkedHashMap<>();
        row.put("name", tensor.name());
        row.put("dtype", tensor.dtype());
        row.put("shape", tensor.shape());
        if (reading) {
            long begin = data + tensor.begin().longValueExact();
            long end = data + tensor.end().longValueExact();
            row.put("nbytes", end - begin);
            row.put("sha256", digest(file, begin, end));
        }
        return row;
    }

    static Map<String, Object> run(Map<String, Object> request) throws Exception {
        Map<String, Object> answer = new LinkedHashMap<>();
        answer.put("seq", Integer.valueOf(((Number) request.get("seq")).text()));
        boolean reading = request.get("step").equals("read");
        if (!reading && !request.get("step").equals("open")) {
            answer.put("outcome", "unsupported");
            return answer;
        }
        try (FileChannel file = FileChannel.open(Path.of((String) request.get("path")))) {
            Header header = header(file);
            List<Object> rows = new ArrayList<>();
            boolean summary = Boolean.TRUE.equals(request.get("summary"));
            for (Tensor t : summary ? List.<Tensor>of() : header.tensors()) rows.add(row(file, t, header.data(), reading));
            answer.put("outcome", "accept");
            answer.put(summary ? "tensor_count" : "tensors", summary ? header.tensors().size() : rows);
            answer.put("metadata", header.metadata());
        } catch (Refused | IOException refused) { // also an IOException if the header is not UTF-8
            answer.put("outcome", "reject");
            answer.put("message", refused.toString());
        }
        return answer;
    }

    public static void main(String[] arguments) throws Exception {
        PrintStream answers = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        System.setOut(System.err); // keeps the output of libraries apart from the answers
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line; (line = requests.readLine()) != null; ) {
            Map<String, Object> request = new Json(line).object(0);
            if (request.get("cmd").equals("stop")) return;
            Object answer =
                    request.get("cmd").equals("start")
                            ? Map.of(
                                    "protocol", 1,
                                    "implementation", Map.of("name", "Java example", "version", "1.0", "language", "Java"),
                                    "steps", List.of("open", "read"))
                            : run(request);
            answers.print(Json.write(answer) + "\n");
            answers.flush();
        }
    }
}
