#!/bin/bash -eu
# Builds the same targets as for OSS-Fuzz, from the checkout in the image.
exec "$SRC/safetensors-conformance/fuzz/oss-fuzz/build.sh"
