#!/bin/bash -eu
# The same targets as for OSS-Fuzz, built from the checkout that the image holds.
exec "$SRC/safetensors-conformance/fuzz/oss-fuzz/build.sh"
