// An example of StcShim with a minimal reader, which searches the header for
// known text. Your reader parses the JSON instead.
//
//     javac -d . StcShim.java Example.java && stc check-protocol --impl "cmd:java -cp . Example"

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.regex.Pattern;

public final class Example {
    private static final Pattern ENTRY = Pattern.compile("\"([^\"]*)\"\\s*:\\s*\\{([^}]*)\\}");
    private static final Pattern PAIR = Pattern.compile("\"([^\"]*)\"\\s*:\\s*\"([^\"]*)\"");

    private Example() {}

    private static String field(String entry, String name, String form) throws IOException {
        var found = Pattern.compile("\"" + name + "\"\\s*:\\s*" + form).matcher(entry);
        if (!found.find()) throw new IOException("no " + name + " in " + entry);
        return found.group(1);
    }

    private static long[] numbers(String entry, String name) throws IOException {
        String digits = field(entry, name, "\\[([^\\]]*)\\]").strip();
        if (digits.isEmpty()) return new long[0];
        return Arrays.stream(digits.split("\\s*,\\s*")).mapToLong(Long::parseUnsignedLong).toArray();
    }

    private static void read(String path, boolean withData, StcShim.Answer answer) throws Exception {
        byte[] file = Files.readAllBytes(Path.of(path));
        if (file.length < 8) throw new IOException("no length prefix");
        long length = ByteBuffer.wrap(file).order(ByteOrder.LITTLE_ENDIAN).getLong();
        if (length < 2 || length > file.length - 8) throw new IOException("the header leaves the file");
        int data = 8 + (int) length;
        String header = new String(file, 8, (int) length, StandardCharsets.UTF_8);
        if (!header.startsWith("{")) throw new IOException("no header");
        LinkedHashMap<String, String> metadata = null;
        for (var entry = ENTRY.matcher(header); entry.find(); ) {
            if (entry.group(1).equals("__metadata__")) {
                metadata = new LinkedHashMap<>();
                for (var pair = PAIR.matcher(entry.group(2)); pair.find(); ) metadata.put(pair.group(1), pair.group(2));
                continue;
            }
            long[] range = numbers(entry.group(2), "data_offsets");
            if (range.length != 2 || range[0] < 0 || range[0] > range[1] || range[1] > file.length - data)
                throw new IOException("a range leaves the file");
            String dtype = field(entry.group(2), "dtype", "\"([^\"]*)\"");
            if (dtype.length() > 12) throw new StcShim.Unsupported(dtype);
            byte[] bytes = Arrays.copyOfRange(file, data + (int) range[0], data + (int) range[1]);
            answer.tensor(entry.group(1), dtype, numbers(entry.group(2), "shape"), withData ? bytes : null);
        }
        answer.metadata(metadata);
    }

    public static void main(String[] args) throws IOException {
        StcShim.serve("example", "1.0", List.of("dtype-f4"), Example::read);
    }
}
