#!/bin/bash -eu
# Builds every target in this folder and writes it to $OUT, with its seed corpus, dictionary and options.

project="$SRC/safetensors-conformance"
pip3 install "$project[official]"

targets=()
for path in "$project"/fuzz/oss-fuzz/fuzz_*.py; do
  target=$(basename -s .py "$path")
  targets+=("$target")
  compile_python_fuzzer "$path" \
    --collect-data safetensors_reference \
    --collect-data safetensors_conformance \
    --copy-metadata safetensors-conformance \
    --copy-metadata safetensors

  # The launcher does not preload the libFuzzer of the sanitizer, because only the libFuzzer inside atheris calls the
  # custom mutator of the grammar.
  cat > "$OUT/$target" <<LAUNCHER
#!/bin/sh
# LLVMFuzzerTestOneInput: this word makes OSS-Fuzz recognise the file as a target.
here=\$(dirname "\$0")
chmod +x "\$here/$target.pkg"
exec "\$here/$target.pkg" "\$@"
LAUNCHER
  chmod +x "$OUT/$target"
done

python3 -m safetensors_fuzz.engines.atheris.files "$OUT" "${targets[@]}"
