// Answers requests with Jlama's SafeTensorSupport.readTensorInfoMap, which every loader in Jlama calls. Converting
// the data needs the rest of Jlama, so bytes are not reported.

import com.github.tjake.jlama.safetensors.SafeTensorSupport;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Optional;

public final class Program {
    private Program() {}

    private static void read(String path, boolean withData, StcShim.Answer answer) throws Exception {
        var metadata = new HashMap<String, String>();
        var held = SafeTensorSupport.readTensorInfoMap(ByteBuffer.wrap(Files.readAllBytes(Path.of(path))), Optional.of(metadata));
        held.forEach((name, info) -> answer.tensor(
                name, info.dType.name(), Arrays.stream(info.shape).asLongStream().toArray(), (ByteBuffer) null));
        answer.metadata(metadata.isEmpty() ? null : metadata);
    }

    public static void main(String[] args) throws IOException {
        StcShim.serve("jlama", "", List.of("dtype-c64", "dtype-f4", "dtype-f6-e2m3", "dtype-f6-e3m2", "dtype-f8-e4m3",
                "dtype-f8-e4m3fnuz", "dtype-f8-e5m2", "dtype-f8-e5m2fnuz", "dtype-f8-e8m0"), Program::read);
    }
}
