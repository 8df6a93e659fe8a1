// Lets a safetensors reader in Java take part in the conformance suite. Copy this file next to your main class:
//
//     public static void main(String[] args) throws IOException {
//         StcShim.serve("my-reader", "1.0", List.of("dtype-f4"), (path, withData, answer) -> {
//             try (var file = MyReader.open(path)) {  // an exception rejects the file
//                 for (var t : file.tensors())
//                     answer.tensor(t.name(), t.dtype(), t.shape(), withData ? t.bytes() : null);
//                 answer.metadata(file.metadata());
//             }
//         });
//     }
//
// Report what your reader reports, and do not parse anything yourself. The shim reads the requests one at a time,
// computes digests and writes the answers. Output of the reader goes to standard error. The shim needs only Java 17.

import java.io.BufferedReader;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;

public final class StcShim {
    private StcShim() {}

    /** Reads a file, or only opens it if withData is false, and reports its content. An exception rejects the file. */
    public interface Read {
        void read(String path, boolean withData, Answer answer) throws Exception;
    }

    /** Thrown for a valid file that the reader does not support. */
    public static final class Unsupported extends Exception {
        private static final long serialVersionUID = 1;

        public Unsupported(String why) {
            super(why);
        }
    }

    /** The answer for one file. */
    public static final class Answer {
        private final boolean summary;
        private final StringBuilder tensors = new StringBuilder();
        private StringBuilder metadata;
        private boolean tellsMetadata;
        private long count;

        private Answer(boolean summary) {
            this.summary = summary;
        }

        /**
         * Reports a tensor. Pass null for a dtype or shape that the reader does not report. The bytes must be in the
         * order of the file, and are null if the file is only opened.
         */
        public void tensor(String name, String dtype, long[] shape, byte[] bytes) {
            tensor(name, dtype, shape, bytes == null ? null : ByteBuffer.wrap(bytes));
        }

        /** Reports a tensor whose bytes are the remaining bytes of a buffer. */
        public void tensor(String name, String dtype, long[] shape, ByteBuffer bytes) {
            if (count++ > 0) tensors.append(", ");
            if (summary) return;
            tensors.append("{\"name\": ").append(quoted(name));
            if (dtype != null) tensors.append(", \"dtype\": ").append(quoted(dtype));
            if (shape != null) {
                tensors.append(", \"shape\": [");
                for (int i = 0; i < shape.length; i++) {
                    // In Java, dimensions of 2^63 and above look negative.
                    tensors.append(i > 0 ? ", " : "").append(Long.toUnsignedString(shape[i]));
                }
                tensors.append(']');
            }
            if (bytes != null) {
                tensors.append(", \"nbytes\": ").append(bytes.remaining());
                tensors.append(", \"sha256\": \"").append(digest(bytes)).append('"');
            }
            tensors.append('}');
        }

        /** Reports the metadata map, where null means that the file has no metadata. */
        public void metadata(Map<String, String> map) {
            tellsMetadata = true;
            if (map == null) return;
            if (metadata == null) metadata = new StringBuilder();
            map.forEach((key, value) -> {
                metadata.append(metadata.isEmpty() ? "[" : ", [");
                metadata.append(quoted(key)).append(", ").append(quoted(value)).append(']');
            });
        }

        private String text() {
            if (summary) return ", \"tensor_count\": " + count;
            String out = ", \"tensors\": [" + tensors + "]";
            if (metadata != null) return out + ", \"metadata_items\": [" + metadata + "]";
            return tellsMetadata ? out + ", \"metadata\": null" : out;
        }
    }

    /** Answers requests until there are no more. {@code lacks} names features that the reader lacks. */
    public static void serve(String name, String version, List<String> lacks, Read reader) throws IOException {
        try (OutputStream answers = new FileOutputStream(FileDescriptor.out)) {
            System.setOut(System.err); // output of the reader must not appear between answers
            var requests = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
            for (String line; (line = requests.readLine()) != null; ) {
                String command = member(line, "cmd");
                if (command == null || command.startsWith("\"stop\"")) return;
                String answer = command.startsWith("\"start\"") ? start(name, version, lacks) : run(line, reader);
                answers.write((answer + "\n").getBytes(StandardCharsets.UTF_8)); // not buffered
            }
        }
    }

    private static String start(String name, String version, List<String> lacks) {
        var features = new StringBuilder();
        for (String feature : lacks) features.append(features.isEmpty() ? "" : ", ").append(quoted(feature));
        return "{\"protocol\": 1, \"steps\": [\"open\", \"read\"], \"lacks\": [" + features
                + "], \"implementation\": {\"name\": " + quoted(name) + ", \"version\": " + quoted(version)
                + ", \"language\": \"Java\"}}";
    }

    private static String run(String request, Read reader) {
        String head = "{\"seq\": " + member(request, "seq").split("[^0-9]", 2)[0] + ", \"outcome\": ";
        String step = member(request, "step"), summary = member(request, "summary");
        boolean reading = step.startsWith("\"read\"");
        if (!reading && !step.startsWith("\"open\"")) return head + "\"unsupported\"}";
        var answer = new Answer(summary != null && summary.startsWith("true"));
        try {
            reader.read(unescaped(member(request, "path")), reading, answer);
            return head + "\"accept\"" + answer.text() + "}";
        } catch (Unsupported err) {
            return head + "\"unsupported\", \"message\": " + message(err) + "}";
        } catch (OutOfMemoryError err) {
            return head + "\"exhausted\", \"message\": " + message(err) + "}";
        } catch (Exception | StackOverflowError err) {
            return head + "\"reject\", \"message\": " + message(err) + "}";
        }
    }

    private static String message(Throwable err) {
        String said = err.getMessage() == null ? "" : ": " + err.getMessage();
        return quoted(err.getClass().getName() + said);
    }

    private static String digest(ByteBuffer bytes) {
        try {
            var sha = MessageDigest.getInstance("SHA-256");
            sha.update(bytes.duplicate());
            return HexFormat.of().formatHex(sha.digest());
        } catch (NoSuchAlgorithmException err) {
            throw new IllegalStateException(err); // every Java runtime has it
        }
    }

    /** Returns a JSON string. Half of a surrogate pair, which UTF-8 cannot encode, is escaped like a control character. */
    private static String quoted(String text) {
        var out = new StringBuilder("\"");
        for (int code : text.codePoints().toArray()) {
            boolean half = code >= 0xD800 && code < 0xE000;
            if (half || code < 0x20 || code == '"' || code == '\\') out.append(String.format("\\u%04x", code));
            else out.appendCodePoint(code);
        }
        return out.append('"').toString();
    }

    /** Returns the value of a key in the object, or null. Requests from the harness are always well formed. */
    private static String member(String text, String key) {
        int depth = 0;
        for (int at = 0; at < text.length(); at++) {
            char c = text.charAt(at);
            if (c == '{' || c == '[') depth++;
            if (c == '}' || c == ']') depth--;
            if (c != '"') continue;
            int begin = ++at;
            while (at < text.length() && text.charAt(at) != '"') at += text.charAt(at) == '\\' ? 2 : 1;
            if (depth != 1 || at > text.length() || !text.substring(begin, at).equals(key)) continue;
            String rest = text.substring(at + 1).stripLeading();
            if (rest.startsWith(":")) return rest.substring(1).stripLeading();
        }
        return null;
    }

    /** Returns the text of a JSON string. */
    private static String unescaped(String text) {
        var out = new StringBuilder();
        for (int at = 1; text.charAt(at) != '"'; at++) {
            if (text.charAt(at) != '\\') {
                out.append(text.charAt(at));
                continue;
            }
            char letter = text.charAt(++at);
            int known = "bfnrt".indexOf(letter);
            if (letter == 'u') {
                out.append((char) Integer.parseInt(text.substring(at + 1, at + 5), 16));
                at += 4;
            } else {
                out.append(known < 0 ? letter : "\b\f\n\r\t".charAt(known));
            }
        }
        return out.toString();
    }
}
