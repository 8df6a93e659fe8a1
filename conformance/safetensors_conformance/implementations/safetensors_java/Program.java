// Answers requests with tmanabe's safetensors-java: SafetensorsViewer.load, getHeader and getByteBuffer. Its checks
// are assertions, so it runs both with them (java -ea) and without them, as a program in production would.

import io.github.tmanabe.SafetensorsViewer;
import java.io.File;
import java.io.IOException;
import java.util.List;

public final class Program {
    private Program() {}

    private static void read(String path, boolean withData, StcShim.Answer answer) throws Exception {
        SafetensorsViewer held;
        try {
            held = SafetensorsViewer.load(new File(path));
            for (var entry : held.getHeader().entrySet()) {
                var value = entry.getValue();
                long[] shape = value.getShape().stream().mapToLong(Integer::longValue).toArray();
                var bytes = withData ? held.getByteBuffer(entry.getKey()).slice() : null;
                answer.tensor(entry.getKey(), value.getDtype(), shape, bytes);
            }
        } catch (AssertionError refused) {
            throw new IOException("an assertion of the library: " + refused.getMessage());
        }
    }

    public static void main(String[] args) throws IOException {
        StcShim.serve("safetensors-java", "", List.of(), Program::read);
    }
}
